import { systemRandomness } from '../../core/randomness.js';
import { shortened } from '../../core/read-options.js';
import { randomAttempt } from '../../core/store/attempt-ids.js';
import { type AcquireReply, type AcquireRequest, type LockStore } from '../../core/store/lock-store.js';
import { readLockState, readRuns } from '../../redis/codec/replies.js';
import { RedisKeys } from '../../redis/codec/redis-keys.js';
import { OLD_DATA_ADVICE } from '../../redis/connection/error-advice.js';
import { createLockScripts } from '../../redis/scripts/lock-scripts.js';
import { counted } from '../output/text.js';
import { within } from '../session.js';
import { type Settings } from '../settings.js';
import { comes, ok, problem, refusalOf, type Result, type Server, skipped, warn } from './servers.js';

const LEASE_MS = 10_000;
const ROUNDS = 5;
const SLOW_MS = 100;
const HANDOVER_MS = 2_000;

const ignore = (): void => undefined;

/** A store with the values for its calls; the attempts are those of the store. */
class Caller {
  constructor(
    private readonly settings: Settings,
    readonly store: LockStore,
    private readonly key: string,
  ) {}

  newAttempt(): string {
    return randomAttempt(this.store.clientId, systemRandomness);
  }

  acquire(attempt: string, waiterLeaseMs = 0): Promise<AcquireReply> {
    const request: AcquireRequest = {
      keys: [this.key],
      attempt,
      owner: undefined,
      mode: 'write',
      leaseMs: LEASE_MS,
      waiterLeaseMs,
      fair: true,
      permits: 0,
      holder: `doctor:${process.pid}`,
    };
    return within(this.settings, this.store.acquire(request, this.settings.timeoutMs, ignore));
  }

  release(attempt: string): Promise<unknown> {
    const request = { key: this.key, attempt, holdAtLeastMs: 0, leaseMs: LEASE_MS };
    return within(this.settings, this.store.release(request, this.settings.timeoutMs));
  }
}

/** Acquires and releases the doctor's own lock several times; `removeTraces` removes its remains. */
export async function checkLock(settings: Settings, store: LockStore, key: string): Promise<Result[]> {
  const caller = new Caller(settings, store, key);
  const times: { readonly acquire: number; readonly release: number }[] = [];
  for (let round = 0; round < ROUNDS; round += 1) {
    const attempt = caller.newAttempt();
    const start = performance.now();
    const reply = await caller.acquire(attempt);
    const middle = performance.now();
    if (reply.outcome !== 'granted') {
      return [problem('A free lock was not granted.', 'Check whether the servers keep written data.')];
    }
    await caller.release(attempt);
    times.push({ acquire: middle - start, release: performance.now() - middle });
  }
  const [acquire, release] = [median(times.map((one) => one.acquire)), median(times.map((one) => one.release))];
  const text = `A lock is acquired in ${msText(acquire)} and released in ${msText(release)} (the median of ${ROUNDS}).`;
  if (acquire + release < SLOW_MS) return [ok(text)];
  const means = `${text} Every locked call is slower by that.`;
  return [warn(means, 'Check the network between this machine and Redis, and the slow log of Redis.')];
}

/** Whether a release hands the lock to a waiter by a message. */
export async function checkHandover(settings: Settings, { place, key }: Server): Promise<Result[]> {
  if (!(await place.listens())) {
    const text =
      'The subscription to the channel of wake-ups was not confirmed. Waiters poll, and get a lock up to two seconds late.';
    return [
      problem(
        text,
        'Check the permissions of the user (+subscribe, and the channels), and whether a proxy refuses pub/sub.',
      ),
    ];
  }
  const caller = new Caller(settings, place.store, key);
  const [first, second] = [caller.newAttempt(), caller.newAttempt()];
  await caller.acquire(first);
  await caller.acquire(second, LEASE_MS);
  const start = performance.now();
  await caller.release(first);
  const isWoken = await comes(() => place.wakeUpOf(second) !== undefined, HANDOVER_MS);
  const tookMs = performance.now() - start;
  await caller.release(second);
  if (!isWoken) {
    const text =
      'No message came when a lock with a waiter was released. Waiters poll, and get a lock up to two seconds late.';
    return [
      problem(
        text,
        'Check the permissions of the user (+publish, and the channels), and whether a proxy drops pub/sub.',
      ),
    ];
  }
  return [ok(`A waiter gets a released lock by a message, ${msText(tookMs)} after the release began.`)];
}

/** Uses only the permissions that locks need, which do not include DEL. */
const REMOVE = `local fields = redis.call('HGETALL', KEYS[1])
for i = 1, #fields, 2 do redis.call('HDEL', KEYS[1], fields[i]) end
return 0`;

export const removeTraces = ({ ask }: Server, storageKey: string): Promise<unknown> =>
  ask((client) => client.evaluate(REMOVE, [1, storageKey]));

const median = (values: readonly number[]): number => [...values].sort((a, b) => a - b)[Math.floor(values.length / 2)]!;

const msText = (ms: number): string => `${ms < 10 ? ms.toFixed(1) : Math.round(ms)} ms`;

/** The data under a name. `text`: the beginning of a string; it may be a secret, and is never printed. */
export type Stored =
  | { readonly type: 'hash'; readonly fields: readonly string[]; readonly kind?: string }
  | { readonly type: string; readonly text: string; readonly isTimed: boolean };

const MAX_KEYS = 1_000;
const MAX_ANSWERS = 200;
const AT_A_TIME = 50;
const KEYS_PER_SCAN = 1_000;

const OURS = 'this library';
const EARLIER = 'an earlier version of this library';
const UNREADABLE = 'a lock that cannot be read';
const UUID = '[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}';

/** The library that has probably stored the data under a name, as far as its form shows. */
export function recognize(name: string, stored: Stored): string {
  if ('fields' in stored) {
    if (mayBeLock(stored.fields)) return stored.kind ?? OURS;
    if (stored.fields.some((field) => new RegExp(`^${UUID}:\\d+$`).test(field))) return 'Redisson';
    return 'something else (a hash)';
  }
  const { type, text, isTimed } = stored;
  if (type === 'zset' && /semaphore/i.test(name)) return 'redis-semaphore';
  if (type !== 'string') return `something else (${type || 'no hash'})`;
  if (/(^|:)mutex:/.test(name)) return 'redis-semaphore';
  if (/^ADDED:\d{4}-/.test(text)) return 'ShedLock';
  if (isTimed && /^(?:[0-9a-f]{32}|[0-9a-f]{40})$/.test(text)) return 'redlock';
  if (isTimed && new RegExp(`^${UUID}$`).test(text)) return 'murlock, or another library that writes a UUID';
  return isTimed ? 'something else (a string with a time to live)' : 'something else (a string)';
}

const mayBeLock = (fields: readonly string[]): boolean => fields.some((field) => field === 's' || field === 'v');

/** Locks do not need TYPE, GETRANGE and PTTL: without these permissions, the answer is less precise. */
const LOOK = `local all = redis.pcall('HGETALL', KEYS[1])
if not all.err then
  local fields = {'hash'}
  for i = 1, math.min(#all, 400), 2 do fields[#fields + 1] = all[i] end
  return fields
end
local kind = redis.pcall('TYPE', KEYS[1])
local text = redis.pcall('GETRANGE', KEYS[1], 0, 63)
local left = redis.pcall('PTTL', KEYS[1])
return {'other', kind.ok or '', type(text) == 'string' and text or '', type(left) == 'number' and left > 0 and '1' or '0'}`;

async function look(server: Server, storageKey: string): Promise<Stored | null> {
  try {
    const reply = (await server.ask((client) => client.evaluate(LOOK, [1, storageKey]))) as string[];
    const [kind, ...rest] = reply.map(String);
    if (kind === 'hash') {
      if (rest.length === 0) return null;
      return { type: 'hash', fields: rest, ...(mayBeLock(rest) && { kind: await kindOf(server, storageKey) }) };
    }
    return { type: rest[0]!, text: rest[1]!, isTimed: rest[2] === '1' };
  } catch (error) {
    // Its slot is moving, or the user may not access it.
    if (refusalOf(error) === null) throw error;
    return null;
  }
}

/** Whether the hash is a lock, as this version writes it. */
async function kindOf(server: Server, storageKey: string): Promise<string> {
  try {
    const reply = (await server.ask((client) =>
      client.evaluate(createLockScripts().inspect, [1, storageKey]),
    )) as string[];
    const parts = reply.map(String);
    readLockState(storageKey, parts);
    readRuns(storageKey, parts);
    return OURS;
  } catch (error) {
    return String(error).includes('OLDDATA') ? EARLIER : UNREADABLE;
  }
}

/** Searches some of the keys under the prefix for data other than locks of this library. */
export async function checkLeftovers(
  server: Server,
  keyPrefix: string,
  hashTag: string | undefined,
): Promise<Result[]> {
  const found = await scan(server, keyPrefix);
  if (found === null) return [skipped('The user may not list keys (+scan).')];
  const by = new Map<string, string[]>();
  for (let i = 0; i < found.names.length; i += AT_A_TIME) {
    const names = found.names.slice(i, i + AT_A_TIME);
    const stored = await Promise.all(names.map((name) => look(server, name)));
    for (const [j, one] of stored.entries()) {
      const name = names[j]!;
      const library = one && recognize(name.slice(keyPrefix.length), one);
      if (library) by.set(library, [...(by.get(library) ?? []), name]);
    }
  }
  const ours = by.get(OURS) ?? [];
  by.delete(OURS);
  const scope = `Of the ${found.isAll ? '' : 'first '}${counted(found.names.length, 'key')} under "${shortened(keyPrefix)}"`;
  const results = [...by].map(([library, names]) =>
    library === UNREADABLE ? ofUnreadable(scope, names) : leftover(scope, library, names),
  );
  const tagged = hashTag === undefined ? ours.filter((name) => name.startsWith(`${keyPrefix}{`)) : [];
  if (tagged.length > 0) results.push(ofTags(tagged));
  return results.length > 0 ? results : [ok(`${scope}, all are locks of this library.`)];
}

async function scan(server: Server, keyPrefix: string): Promise<{ names: string[]; isAll: boolean } | null> {
  const keys = new RedisKeys(keyPrefix);
  const pattern = keys.pattern('');
  const names = new Set<string>();
  let cursor = '0';
  let answers = 0;
  do {
    const at = cursor;
    const answer = await server
      .ask((client) => client.scan(at, pattern, KEYS_PER_SCAN))
      .catch((error: unknown) => {
        if (refusalOf(error) === null) throw error;
        return null;
      });
    if (answer === null) return null;
    for (const name of answer[1]) if (name !== keys.historyKey) names.add(name);
    cursor = answer[0];
    answers += 1;
  } while (cursor !== '0' && names.size < MAX_KEYS && answers < MAX_ANSWERS);
  return { names: [...names].slice(0, MAX_KEYS), isAll: cursor === '0' && names.size <= MAX_KEYS };
}

function leftover(scope: string, library: string, names: readonly string[]): Result {
  const examples = names.slice(0, 3).map(shortened).join(', ');
  const text =
    `${scope}, ${names.length} ${names.length === 1 ? 'looks' : 'look'} like ${library}: ${examples}. Locks of another library and ` +
    'of this one do not exclude each other, and a lock of this library whose name is taken by data other than a hash is ' +
    'refused (WRONGTYPE).';
  if (library === EARLIER) return warn(text, OLD_DATA_ADVICE);
  const advice =
    'If the app has just changed its library, wait until no instance with the old one runs, and let the old keys expire or delete ' +
    'them. Otherwise give the locks their own `keyPrefix`.';
  return warn(text, advice);
}

function ofUnreadable(scope: string, names: readonly string[]): Result {
  const text =
    `${scope}, ${names.length} cannot be read as ${names.length === 1 ? 'a lock' : 'locks'}: ${names.slice(0, 3).map(shortened).join(', ')}. ` +
    'A newer version of nestjs-redis-lock has written them, or something else has. An instance of this version refuses them.';
  return problem(text, 'Update the older instances. Otherwise give the locks their own `keyPrefix`.');
}

function ofTags(names: readonly string[]): Result {
  const text =
    `${counted(names.length, 'lock')} ${names.length === 1 ? 'has' : 'have'} a hash tag (the module option \`hashTag\`): ` +
    `${names.slice(0, 3).map(shortened).join(', ')}. This tool finds them only by their tag.`;
  return warn(text, 'Give --hash-tag with the text between the braces.');
}
