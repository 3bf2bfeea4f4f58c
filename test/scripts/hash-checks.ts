import { type MemoryLock, type Run } from '../../lib/testing/memory/memory-lock.js';

type Fields = Readonly<Record<string, string>>;
type Told = string | number | boolean;

const KNOWN =
  /^(token|released|revoked|late|floor|latest|first|cursor|jobs|writes|reads|parked|owner|writer|fence|due|seen|head|tail|(hold|id|queue|place|owned|fires|run):.+)$/;

const entriesOf = (hash: Fields, prefix: string): [string, string][] =>
  Object.entries(hash)
    .filter(([field]) => field.startsWith(prefix))
    .map(([field, value]) => [field.slice(prefix.length), value]);

const holdsOf = (hash: Fields) =>
  entriesOf(hash, 'hold:').map(([attempt, record]) => {
    const [deadline, lease, mode, token, since, owner] = record.split(' ');
    const times = { deadline: Number(deadline), lease: Number(lease), since: Number(since) };
    return { attempt, mode: mode!, token: Number(token), owner: owner!, ...times };
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
  return [...strangers(hash), ...wrongCounts(hash), ...wrongBounds(hash), ...wrongQueue(hash)];
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
    ['parked', Number(hash['parked'] ?? 0), writes.length - live.length],
    ['writes is there', 'writes' in hash, holds.length > 0],
    ['owner', hash['owner'] ?? '', owner ?? ''],
    ...[...owners].map((name): [string, Told, Told] => [`owned:${name}`, told(name), counted(name)]),
  ];
  if (live[0]) expected.push(['fence', Number(hash['fence']), live[0].token]);
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
  const misplaced = waiters.filter(({ attempt, place }) => hash[`place:${attempt}`] !== `${place}`);
  const outside = waiters.filter(({ place }) => !(place >= Number(hash['first']) && place <= Number(hash['tail'])));
  return [
    ...(places.length === waiters.length ? [] : [`${places.length} places of ${waiters.length} waiters`]),
    ...misplaced.map(({ attempt }) => `wrong place of ${attempt}`),
    ...outside.map(({ attempt }) => `${attempt} is outside of first and tail`),
  ];
}

/** As the hash has it: `fire attempt started ended outcome`. */
const runText = ({ fire, attempt, started, ended, outcome }: Run): string =>
  [fire, attempt, started, ended, outcome ?? '-'].join(' ');

const ring = (values: readonly (string | number)[]): string => [';', ...values.map((value) => `${value};`)].join('');

/** All that is known of jobs, by their names, and until when each is remembered. */
function jobsOf(hash: Fields): string {
  const told = Object.entries(hash).filter(([field]) => /^(fires|run):/.test(field));
  return [hash['jobs'] ?? '', ...told.map(([field, value]) => `${field} ${value}`).sort()].join(', ');
}

function jobsOfModel({ jobs }: MemoryLock): string {
  const told = [...jobs].flatMap(([name, { fires, run }]) => {
    const fields = [`fires:${name} ${ring(fires)}`];
    if (run) fields.push(`run:${name} ${runText(run)}`, `run:by:${name} ${run.by}`);
    return fields;
  });
  return [[...jobs].map(([name, { until }]) => `${name} ${until}`).join(' '), ...told.sort()].join(', ');
}

/** Where the hash tells another state than the model has. */
export function differences(hash: Fields, model: MemoryLock): string[] {
  const byName = (a: string, b: string) => (a < b ? -1 : 1);
  const holds = holdsOf(hash).map((hold) => Object.values(hold).join(' '));
  const modelHolds = [...model.holds].map(([attempt, { mode, token, owner, deadline, lease, since }]) =>
    [attempt, mode, token, owner ?? '-', deadline, lease, since].join(' '),
  );
  const queue = waitersOf(hash).map(({ attempt, terms }) => `${attempt} ${terms}`);
  const modelQueue = model.queue.waiters.map((waiter) => {
    const { attempt, deadline, waiterLeaseMs, mode, fair, permits, leaseMs, owner, keys, claim } = waiter;
    // 2: has to send its request again in its turn.
    const howFair = !fair ? 0 : keys.length > 1 || claim ? 2 : 1;
    return [attempt, deadline, waiterLeaseMs, mode, howFair, permits, leaseMs, owner ?? '-'].join(' ');
  });
  const compared: [string, string, string][] = [
    ['holds', holds.sort(byName).join(', '), modelHolds.sort(byName).join(', ')],
    ['queue', queue.join(', '), modelQueue.join(', ')],
    ['token', hash['token'] ?? '0', `${model.token}`],
    ['jobs', jobsOf(hash), jobsOfModel(model)],
    ['floor', hash['floor'] ?? '0', `${model.floor}`],
    ['late', hash['late'] ?? ';', ring(model.late.map(({ attempt, micros }) => `${attempt} ${micros}`))],
    ['revoked', hash['revoked'] ?? ';', ring(model.revoked)],
  ];
  return compared
    .filter(([, is, should]) => is !== should)
    .map(([name, is, should]) => `${name}: [${is}], model [${should}]`);
}
