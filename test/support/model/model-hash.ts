import { type Hold, type MemoryLock, type Run } from './memory-lock.js';
import { type Waiter } from './memory-queue.js';

type Fields = [field: string, value: string | number][];

/**
 * The hash of a lock that Redis would have (lib/redis/scripts/parts/state.ts); empty: there is no key. `by`: the last holder
 * since the lock was packed.
 */
export function hashOfModel(lock: MemoryLock, by: string | undefined): Record<string, string> {
  if (lock.expiresAt === undefined) return {};
  const fields = lock.isPacked ? packedFields(lock, by) : allFields(lock);
  return Object.fromEntries(fields.map(([field, value]) => [field, String(value)]));
}

function packedFields({ token, released, holds }: MemoryLock, by: string | undefined): Fields {
  const [held] = [...holds].map(
    ([attempt, { deadline, lease }]) => `${deadline}${`${lease}`.padStart(10, '0')}${attempt}`,
  );
  const fields: Fields = [
    ['s', `1${token}${held ?? ''}`],
    ['released', ring(released)],
  ];
  return by === undefined ? fields : [...fields, ['by', by]];
}

function allFields(lock: MemoryLock): Fields {
  const { token, released, revoked, late, floor } = lock;
  const fields: Fields = [
    ['v', 1],
    ['token', token],
    ['released', ring(released)],
  ];
  if (revoked.length > 0) fields.push(['revoked', ring(revoked)]);
  if (late.length > 0) fields.push(['late', ring(late.map(({ attempt, micros }) => `${attempt} ${micros}`))]);
  if (floor > 0) fields.push(['floor', floor]);
  if (lock.permits !== undefined) fields.push(['permits', lock.permits]);
  return [...fields, ...holdFields(lock), ...queueFields(lock), ...jobFields(lock)];
}

/** Followed by the permits that are taken, unless it is one. */
const modeOf = ({ mode, take = 1 }: { readonly mode: string; readonly take?: number | undefined }): string =>
  take > 1 ? `${mode}${take}` : mode;

const ring = (values: readonly (string | number)[]): string => [';', ...values.map((value) => `${value};`)].join('');

function holdFields(lock: MemoryLock): Fields {
  const { holds, bounds, writer } = lock;
  if (holds.size === 0) return [];
  const all = [...holds];
  const writes = all.filter(([, { mode }]) => mode === 'write');
  const live = writes.filter(([, { token }]) => token > 0);
  const [attempt, writing] = live[0] ?? [];
  return [
    ['writes', writes.length],
    ['reads', all.length - writes.length],
    ['parked', writes.length - live.length],
    ['owner', writing?.owner ?? attempt ?? ''],
    ['writer', writer?.attempt ?? ''],
    // Nobody re-enters with it when nobody writes.
    ...(writing ? [['fence', writing.entry] satisfies Fields[number]] : []),
    ...permitFields(lock, all.length - writes.length),
    ...Object.entries(bounds),
    ...all.flatMap(([who, hold]) => oneHold(who, hold)),
    ...ownedFields(lock),
  ];
}

function permitFields({ taken, limit }: MemoryLock, reads: number): Fields {
  const fields: Fields = taken > reads ? [['extra', taken - reads]] : [];
  return limit > 0 ? [...fields, ['limit', limit]] : fields;
}

function oneHold(attempt: string, hold: Hold): Fields {
  const { deadline, lease, token, since, owner, holder } = hold;
  const record = [deadline, lease, modeOf(hold), token, since, owner ?? '-'].join(' ');
  return [[`hold:${attempt}`, record], ...(token > 0 ? [[`id:${attempt}`, holder] satisfies Fields[number]] : [])];
}

/** The named owners that read. */
function ownedFields({ holds }: MemoryLock): Fields {
  const readers = [...holds.values()].filter(({ mode, token, owner }) => mode === 'read' && token > 0 && owner);
  const names = new Set(readers.map(({ owner }) => owner!));
  return [...names].map((name) => {
    const mine = readers.filter(({ owner }) => owner === name);
    return [`owned:${name}`, `${mine.length} ${mine[0]!.entry}`];
  });
}

function queueFields({ queue }: MemoryLock): Fields {
  const { pointers } = queue;
  if (pointers.first > pointers.tail) return [];
  return [...Object.entries(pointers), ...queue.waiters.flatMap(waiterFields)];
}

function waiterFields(waiter: Waiter): Fields {
  const { attempt, deadline, waiterLeaseMs, fair, permits, leaseMs, owner, keys, claim, place, since, holder } = waiter;
  // 2: has to send its request again in its turn.
  const howFair = !fair ? 0 : keys.length > 1 || claim ? 2 : 1;
  const record = [deadline, waiterLeaseMs, modeOf(waiter), howFair, permits, leaseMs, owner ?? '-', attempt].join(' ');
  return [
    [`queue:${place}`, record],
    [`place:${attempt}`, `${place} ${since}`],
    [`id:${attempt}`, holder],
  ];
}

function jobFields({ jobs }: MemoryLock): Fields {
  if (jobs.size === 0) return [];
  return [
    ['jobs', [...jobs].map(([name, { until }]) => `${name} ${until}`).join(' ')],
    ...[...jobs].flatMap(([name, { fires, run }]): Fields => [
      [`fires:${name}`, ring(fires)],
      ...(run ? runFields(name, run) : []),
    ]),
  ];
}

const runFields = (name: string, { fire, attempt, started, ended, outcome, by }: Run): Fields => [
  [`run:${name}`, [fire, attempt, started, ended, outcome ?? '-'].join(' ')],
  [`run:by:${name}`, by],
];
