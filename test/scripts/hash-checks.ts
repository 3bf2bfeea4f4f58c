type Fields = Readonly<Record<string, string>>;
type Told = string | number | boolean;

const KNOWN =
  /^(v|token|extra|limit|permits|released|revoked|late|floor|latest|first|cursor|jobs|writes|reads|parked|owner|writer|fence|due|seen|head|tail|(hold|id|queue|place|owned|fires|run):.+)$/;

const entriesOf = (hash: Fields, prefix: string): [string, string][] =>
  Object.entries(hash)
    .filter(([field]) => field.startsWith(prefix))
    .map(([field, value]) => [field.slice(prefix.length), value]);

const holdsOf = (hash: Fields) =>
  entriesOf(hash, 'hold:').map(([attempt, record]) => {
    const [deadline, lease, how, token, since, owner] = record.split(' ');
    const [, mode, take = 1] = /^([a-z]+)(\d+)?$/.exec(how!)!;
    const times = { deadline: Number(deadline), lease: Number(lease), since: Number(since) };
    return { attempt, mode: mode!, take: Number(take), token: Number(token), owner: owner!, ...times };
  });

const waitersOf = (hash: Fields) =>
  entriesOf(hash, 'queue:')
    .map(([place, record]) => {
      const [deadline, waiterLease, mode, fair, permits, lease, owner, attempt] = record.split(' ');
      const terms = [deadline, waiterLease, mode, fair, permits, lease, owner].join(' ');
      return { place: Number(place), attempt: attempt!, terms };
    })
    .sort((a, b) => a.place - b.place);

/** What is wrong inside the hash of a lock, in words. */
export function inconsistencies(hash: Fields): string[] {
  if (hash['s'] !== undefined) return packedFlaws(hash);
  return [...strangers(hash), ...wrongCounts(hash), ...wrongBounds(hash), ...wrongQueue(hash)];
}

function packedFlaws(hash: Fields): string[] {
  const flaws = Object.keys(hash)
    .filter((field) => !['s', 'released', 'by'].includes(field))
    .map((field) => `unknown field ${field} of a packed lock`);
  if (!/^1\d{16}(\d{23}.{1,24})?$/.test(hash['s']!)) flaws.push(`s: ${hash['s']}`);
  if (hash['released']!.length > 64) flaws.push(`released is long: ${hash['released']}`);
  return flaws;
}

function strangers(hash: Fields): string[] {
  const known = new Set([...holdsOf(hash).filter(({ token }) => token > 0), ...waitersOf(hash)].map((x) => x.attempt));
  const ids = new Set(entriesOf(hash, 'id:').map(([attempt]) => attempt));
  return [
    ...Object.keys(hash)
      .filter((field) => !KNOWN.test(field))
      .map((field) => `unknown field ${field}`),
    ...[...known].filter((attempt) => !ids.has(attempt)).map((attempt) => `no id:${attempt}`),
    ...[...ids].filter((attempt) => !known.has(attempt)).map((attempt) => `id:${attempt} of nobody`),
    ...Object.entries(hash)
      .filter(([field, value]) => value.length > 64 && !/^(jobs$|late$|fires:|run:)/.test(field))
      .map(([field, value]) => `${field} is long: ${value}`),
  ];
}

function wrongCounts(hash: Fields): string[] {
  const holds = holdsOf(hash);
  const writes = holds.filter(({ mode }) => mode === 'write');
  const live = writes.filter(({ token }) => token > 0);
  const owner = live[0] && (live[0].owner === '-' ? live[0].attempt : live[0].owner);
  const readers = holds.filter(({ mode, token, owner }) => mode === 'read' && token > 0 && owner !== '-');
  const counted = (name: string) => readers.filter((hold) => hold.owner === name).length;
  const owners = new Set([...readers.map((hold) => hold.owner), ...entriesOf(hash, 'owned:').map(([name]) => name)]);
  const told = (name: string) => Number((hash[`owned:${name}`] ?? '0').split(' ')[0]);
  const expected: [string, Told, Told][] = [
    ['writes', Number(hash['writes'] ?? 0), writes.length],
    ['reads', Number(hash['reads'] ?? 0), holds.length - writes.length],
    ['extra', Number(hash['extra'] ?? 0), holds.reduce((sum, { take }) => sum + take - 1, 0)],
    ['parked', Number(hash['parked'] ?? 0), writes.length - live.length],
    ['writes is there', 'writes' in hash, holds.length > 0],
    ['owner', hash['owner'] ?? '', owner ?? ''],
    ...[...owners].map((name): [string, Told, Told] => [`owned:${name}`, told(name), counted(name)]),
  ];
  return expected
    .filter(([, is, should]) => is !== should)
    .map(([name, is, should]) => `${name}: ${is}, not ${should}`);
}

function wrongBounds(hash: Fields): string[] {
  const holds = holdsOf(hash);
  const late = holds.filter(({ deadline }) => !(Number(hash['due']) <= deadline));
  const early = holds.filter(({ deadline }) => !(Number(hash['latest']) >= deadline));
  const unseen = holds.filter(({ deadline, lease }) => !(Number(hash['seen']) >= deadline - lease));
  return [
    ...late.map(({ attempt, deadline }) => `due ${hash['due']} is after ${deadline} of ${attempt}`),
    ...early.map(({ attempt, deadline }) => `latest ${hash['latest']} is before ${deadline} of ${attempt}`),
    ...unseen.map(({ attempt, deadline, lease }) => `seen ${hash['seen']} is before ${deadline - lease} of ${attempt}`),
  ];
}

function wrongQueue(hash: Fields): string[] {
  const waiters = waitersOf(hash);
  const places = entriesOf(hash, 'place:');
  const misplaced = waiters.filter(({ attempt, place }) => !hash[`place:${attempt}`]?.startsWith(`${place} `));
  const outside = waiters.filter(({ place }) => !(place >= Number(hash['first']) && place <= Number(hash['tail'])));
  return [
    ...(places.length === waiters.length ? [] : [`${places.length} places of ${waiters.length} waiters`]),
    ...misplaced.map(({ attempt }) => `wrong place of ${attempt}`),
    ...outside.map(({ attempt }) => `${attempt} is outside of first and tail`),
  ];
}
