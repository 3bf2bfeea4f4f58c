import {
  type LockHistoryBatch,
  type LockHistoryEntry,
  type LockHistoryRecord,
  type LockHistoryStore,
  NO_FACTS,
} from '../../core/history/history-entry.js';
import { LockKeyError } from '../../core/lock.errors.js';
import { type LockState } from '../../core/store/lock-state.js';
import { type Client, it, LONG_MS, needing, type PortCase, promised, same, type Scene, SHORT_MS } from './kit.js';

const refuses = (check: () => void): unknown => {
  try {
    check();
    return undefined;
  } catch (error) {
    return error;
  }
};

const permutations = <T>(values: readonly T[]): T[][] =>
  values.length < 2
    ? [[...values]]
    : values.flatMap((value) => permutations(values.filter((one) => one !== value)).map((rest) => [value, ...rest]));

/** Keys in no particular order. Some differ only in ways that a comparison may miss. */
const someKeys = ({ prefix }: Scene): string[] => ['b', 'B', 'é', 'a'].map((name) => prefix + name);

async function listed({ store }: Client, prefix: string, limit = 100, contains = ''): Promise<LockState[]> {
  const states: LockState[] = [];
  for await (const state of store.list({ prefix, contains, limit })) states.push(state);
  return states;
}

const keysOf = (states: readonly LockState[]): string[] => states.map(({ key }) => key).toSorted();

const KEEP_MS = 600_000;

/** A record about a lock, `agoMs` before a time of the process. */
const recordOf = (keys: readonly string[], now: number, agoMs = 0): LockHistoryRecord => ({
  ...NO_FACTS,
  event: 'acquired',
  key: keys.join(', '),
  keys,
  mode: 'write',
  at: now - agoMs,
});

function historyOf({ store: { history } }: Client): LockHistoryStore {
  promised(history, 'the store to have a `history`, or the options to have `supports: { history: false }`');
  return history;
}

/** Adds entries about locks, the oldest first, as a process does; each happened a second before the next. */
async function append(
  { scene, client, now }: { readonly scene: Scene; readonly client: Client; readonly now: number },
  locks: readonly (readonly string[])[],
  batch: Partial<LockHistoryBatch> = {},
): Promise<string> {
  const id = client.nextAttempt();
  const records = locks.map((keys, i) => recordOf(keys, now, (locks.length - 1 - i) * 1_000));
  const terms = { id, host: 'host-1', pid: 4711, maxEntries: 10_000, keepMs: KEEP_MS };
  await scene.time.answer('an append', historyOf(client).append({ ...terms, now, records, ...batch }));
  return id;
}

/** The entries of this case: a history may also have those of other cases. */
async function entriesOf(scene: Scene, client: Client, key?: string, limit = 10_000): Promise<LockHistoryEntry[]> {
  const read = historyOf(client).read({ key, limit });
  const entries = await scene.time.answer('a reading of the history', read);
  return entries.filter(({ keys }) => keys.some((one) => one.startsWith(scene.prefix)));
}

const shown = (entries: readonly LockHistoryEntry[]): readonly string[] => entries.map(({ key }) => key);

/** The time limit of a command that gets no reply. */
const SOON_MS = 500;

export const REPORTS: readonly PortCase[] = [
  // Valid keys, and the order in which several are acquired.
  it('keys that are empty, ill-formed or too long throw a LockKeyError', async (scene, { store }) => {
    const bad = ['', '\uD800', `${scene.key}\uDC00x`, scene.prefix + 'k'.repeat(10_000), undefined, 7];
    for (const key of bad) {
      const error = refuses(() => store.checkKey(key as string));
      const named = `${typeof key === 'string' ? JSON.stringify(key.slice(-9)) : String(key)} to throw LockKeyError`;
      promised(error instanceof LockKeyError, named, error ?? 'nothing');
    }
  }),
  it('any other text is a key', async (scene, { store }) => {
    for (const name of ['', ' ', 'a b', '{a}', '%', 'né 🔒', 'a\u0000b', '*', 'k'.repeat(900)]) {
      const error = refuses(() => store.checkKey(scene.prefix + name));
      promised(error === undefined, `${JSON.stringify(name.slice(0, 9))} to be accepted`, error);
    }
  }),
  it('groups() orders keys the same way for every client', async (scene, a, b) => {
    const keys = someKeys(scene);
    const order = a.store.groups(keys);
    same(order.flat().toSorted(), keys.toSorted(), 'the keys in the groups');
    for (const permutation of permutations(keys)) same(b.store.groups(permutation), order, 'the groups');
  }),
  it('two keys keep their order among any other keys', async (scene, { store }) => {
    const keys = someKeys(scene);
    const all = store.groups(keys).flat();
    for (const [first, second] of permutations(keys)) {
      const pair = [first!, second!];
      same(
        store.groups(pair).flat(),
        all.filter((key) => pair.includes(key)),
        'the order of two of them',
      );
    }
  }),
  // The report of one lock.
  it('inspect() reports a lock that was never held as free, with a fencing token of 0', async (scene, { store }) => {
    const free = { key: scene.key, mode: 'free', holders: [], waiters: 0, queue: [], permits: null, fencingToken: 0 };
    const { readAt: _readAt, ...state } = await store.inspect(scene.key);
    same(state, free, 'the state');
  }),
  it('inspect() reports the writer, the start of its hold and the rest of its lease', async (scene, a, b) => {
    const { attempt, fencingToken, serverTimeMs } = await a.granted('the writer');
    const { holders, ...state } = await b.store.inspect(scene.key);
    scene.lastToken(state.fencingToken, fencingToken);
    same([state.key, state.mode, state.waiters, holders.length], [scene.key, 'write', 0, 1], 'the state');
    const { since, remainingMs, ...holder } = holders[0]!;
    const told = { host: 'host-1', pid: 4711, where: 'Orders.pay', note: '' };
    same(holder, { owner: attempt, attempt, mode: 'write', take: 1, ...told, fencingToken }, 'the holder');
    scene.sameTime(since.getTime(), serverTimeMs, '`since`');
    promised(remainingMs > 0 && remainingMs <= LONG_MS, 'the rest of the lease', remainingMs);
  }),
  it('inspect() reports the holder that a renewal names, once the process has handed the hold on', async (scene, a, b) => {
    // Without reserved tokens, no hold is handed on.
    if (a.store.reservesTokens !== true) return;
    const hold = await a.granted('the writer');
    const noted = async () => (await b.store.inspect(scene.key)).holders.map(({ where, note }) => [where, note]);
    const renewed = async (how: object) => same((await a.renew(hold, LONG_MS, how)).outcome, 'renewed', 'a renewal');
    await renewed({ holder: 'host-1:4711 Orders.refund\t\tsecond' });
    same(await noted(), [['Orders.pay', '']], 'the holder after a plain renewal');
    await renewed({ holder: 'host-1:4711 Orders.refund\t\tsecond', hasNewHolder: true });
    await renewed({});
    same(await noted(), [['Orders.refund', 'second']], 'the holder after the lock was handed on');
  }),
  it('inspect() reports all readers, by owner or attempt', async (scene, a, b, c) => {
    const named = await a.granted('a reader', { mode: 'read', owner: 'job 7' });
    const other = await b.granted('another reader', { mode: 'read' });
    const { mode, holders } = await c.store.inspect(scene.key);
    same(mode, 'read', 'the mode');
    const told = holders.map(({ owner, attempt, mode }) => `${owner} ${attempt} ${mode}`).toSorted();
    const expected = [`job 7 ${named.attempt} read`, `${other.attempt} ${other.attempt} read`];
    same(told, expected.toSorted(), 'the holders');
  }),
  it('inspect() leaves out holds whose lease has ended, and keeps the last fencing token', async (scene, a, b) => {
    const dead = await a.granted('the holder', { leaseMs: SHORT_MS });
    const { holders, fencingToken } = await scene.time.until('the lease to end', async () => {
      const state = await b.store.inspect(scene.key);
      return state.mode === 'free' ? state : undefined;
    });
    same(holders, [], 'the holders');
    scene.lastToken(fencingToken, dead.fencingToken);
  }),
  // The list of locks.
  it('list() yields each lock whose key begins with the prefix once, and no free ones', async (scene, a, b) => {
    const keys = ['p-1', 'p-2', 'p-3', 'q-1'].map((name) => scene.prefix + name);
    for (const key of keys) await a.granted(`the lock ${key}`, { keys: [key] });
    const freed = await a.granted('a fifth lock', { keys: [`${scene.prefix}p-4`] });
    await a.release(freed);
    const states = await listed(b, `${scene.prefix}p-`);
    same(keysOf(states), keys.slice(0, 3), 'the keys');
    promised(
      states.every(({ mode, holders }) => mode === 'write' && holders.length === 1),
      'the holders',
      states,
    );
    same(keysOf(await listed(b, scene.prefix)), keys, 'the keys of a shorter prefix');
  }),
  it('list() yields at most `limit` locks', async (scene, a) => {
    for (const name of ['a', 'b', 'c']) await a.granted(`the lock ${name}`, { keys: [scene.prefix + name] });
    same((await listed(a, scene.prefix, 2)).length, 2, 'the number of locks');
    same((await listed(a, scene.prefix, 3)).length, 3, 'the number of locks');
  }),
  it('list() takes its prefix literally, and yields keys as they were given', async (scene, a) => {
    const names = ['*', '?', '[ab]', '{x}', '%7B', 'a b', '\\', 'é'];
    for (const name of names) await a.granted(`the lock ${name}`, { keys: [`${scene.prefix}${name}1`] });
    for (const name of names) {
      same(keysOf(await listed(a, scene.prefix + name)), [`${scene.prefix}${name}1`], `the keys with ${name}`);
    }
  }),
  it('list() yields the locks whose key contains a text, taken literally', async (scene, a) => {
    for (const name of ['a*7', 'b*77', 'c7']) await a.granted(`the lock ${name}`, { keys: [scene.prefix + name] });
    const contains = async (text: string): Promise<string[]> =>
      keysOf(await listed(a, '', 1_000, text)).filter((key) => key.startsWith(scene.prefix));
    same(await contains('*7'), [`${scene.prefix}a*7`, `${scene.prefix}b*77`], 'the keys with *7');
    same(keysOf(await listed(a, `${scene.prefix}b`, 10, '*7')), [`${scene.prefix}b*77`], 'the keys with b and *7');
    same(await contains('*8'), [], 'the keys with *8');
  }),
  // Closing a client.
  it('each client has its own id, without a dot', async (_scene, a, b, c) => {
    const ids = [a, b, c].map(({ store }) => store.clientId);
    same(new Set(ids).size, 3, 'the number of ids');
    promised(
      ids.every((id) => /^[^.\s]+$/.test(id)),
      'no dots or spaces',
      ids,
    );
  }),
  it('closing a client frees no lock', async (_scene, a, b) => {
    const hold = await a.granted('the holder');
    await a.store.close();
    await b.busy('another caller');
    await b.keeps(hold);
  }),
  it('commands after close() settle, and leave other clients alone', async (scene, a, b) => {
    const hold = await b.granted('the holder');
    await a.store.close();
    const late = a.requestOf({});
    const acquiring = a.store.acquire(late, SOON_MS, () => undefined);
    const acquired = await scene.time.settles('an acquire after the close', acquiring);
    const granted = acquired.status === 'fulfilled' && acquired.value.outcome === 'granted';
    promised(!granted, 'an acquire after the close not to be granted a held lock', acquired);
    const { key, attempt, leaseMs } = { ...late, key: scene.key };
    const releasing = a.store.release({ key, attempt, leaseMs, holdAtLeastMs: 0 }, SOON_MS);
    await scene.time.settles('a release after the close', releasing);
    const renewing = a.store.renew([{ ...hold, ...late, leaseMs: 1, timeoutMs: SOON_MS }]);
    const renewal = await scene.time.settles('a renewal after the close', renewing);
    promised(renewal.status === 'fulfilled', 'a renewal never to reject', renewal);
    await b.keeps(hold);
  }),
  it('a client can be closed twice, and before it was opened', async (scene) => {
    const [opened, silent] = [await scene.client(), await scene.silentClient()];
    for (const { store } of [opened, opened, silent]) {
      const closed = await scene.time.settles('a close', store.close());
      promised(closed.status === 'fulfilled', 'the close not to reject', closed);
    }
  }),
  ...needing(['history'])([
    // The history of a store with a `history`.
    it('history.read() returns every entry that any client has added, as it was, the newest first', async (scene, a, b) => {
      const now = scene.time.now();
      const more = {
        event: 'lost',
        ms: 5,
        reason: 'expired',
        note: 'a "note",\n\u0000 é',
        where: 'A.b',
        fencingToken: 7,
      } as const;
      await append({ scene, client: a, now }, [[scene.key]]);
      await append({ scene, client: b, now }, [], { records: [{ ...recordOf([scene.key], now), ...more }] });
      const [lost, acquired] = await entriesOf(scene, b);
      const { id: _id, at: _at, ...facts } = lost!;
      same(
        facts,
        { ...NO_FACTS, ...more, key: scene.key, keys: [scene.key], mode: 'write', host: 'host-1', pid: 4711 },
        'the entry',
      );
      same(acquired?.event, 'acquired', 'the entry that is older');
      promised(lost!.at >= acquired!.at, 'the newest entry to be the latest', [lost!.at, acquired!.at]);
    }),
    it('an entry has the time at which it happened, by the clock of the store, in the order of its process', async (scene, client) => {
      const hold = await client.granted('a lock');
      await append(
        { scene, client, now: scene.time.now() },
        [['a'], ['b'], ['c']].map(([name]) => [scene.prefix + name!]),
      );
      const { serverTimeMs } = await client.busy('another client');
      const [c, b, a] = await entriesOf(scene, client);
      const [first, second, third] = [a!, b!, c!].map(({ at }) => at.getTime()) as [number, number, number];
      same([second - first, third - second], [1_000, 1_000], 'the time between the entries, in milliseconds');
      const isBetween = third >= hold.serverTimeMs - 1 - scene.spreadMs && third <= serverTimeMs + 1 + scene.spreadMs;
      promised(isBetween, `the last entry to be between ${hold.serverTimeMs} and ${serverTimeMs}`, third);
    }),
    it('a batch that is sent twice is read once, and read() returns at most the requested number of entries', async (scene, client) => {
      const now = scene.time.now();
      const keys = ['a', 'b', 'c'].map((name) => [scene.prefix + name]);
      const id = await append({ scene, client, now }, keys);
      await append({ scene, client, now }, keys, { id });
      same(shown(await entriesOf(scene, client)), keys.flat().toReversed(), 'the keys of the entries');
      same((await historyOf(client).read({ limit: 2 })).length, 2, 'the number of entries');
    }),
    it('history.read() of a key returns the entries of that key, also among several keys, and no entries of keys that contain its text', async (scene, client) => {
      const [a, ab, abc, b] = ['a', 'a, b', 'a, b, c', 'b'].map((name) => scene.prefix + name) as [
        string,
        string,
        string,
        string,
      ];
      const locks = [[a], [ab], [abc], [a, b], [b, ab], [b]];
      await append({ scene, client, now: scene.time.now() }, locks);
      for (const key of [a, ab, abc, b]) {
        const found = (await entriesOf(scene, client, key)).map(({ keys }) => keys);
        same(found, locks.filter((keys) => keys.includes(key)).toReversed(), `the entries about "${key}"`);
      }
    }),
    it('history.read() returns the entries before a time, up to the limit', async (scene, client) => {
      const keys = ['a', 'b', 'c'].map((name) => [scene.prefix + name]);
      await append({ scene, client, now: scene.time.now() }, keys);
      const [{ at }] = (await entriesOf(scene, client)) as [LockHistoryEntry];
      // A server that did not answer in time may answer now, with another time of the same entry; b is a second older.
      const before = new Date(at.getTime() - Math.min(scene.spreadMs, 500));
      const older = await historyOf(client).read({ limit: 10_000, before });
      const ofCase = shown(older).filter((key) => key.startsWith(scene.prefix));
      same(ofCase, [`${scene.prefix}b`, `${scene.prefix}a`], 'the keys of the older entries');
      same((await historyOf(client).read({ limit: 1, before })).length, 1, 'the number of entries');
    }),
  ]),
  ...needing(['queue'])([
    // The report of one lock.
    it('inspect() reports the waiters in their order, with the start and the end of their waits', async (scene, a, b) => {
      await a.granted('the holder');
      const first = await b.waits('the first waiter', { holder: 'host-2:7 Jobs.run\t5000\tthe note' });
      const second = await b.waits('the second waiter', { mode: 'read', owner: 'job 7', holder: 'host-3:8' });
      await b.waits('the first waiter again', first.request);
      const { queue } = await a.store.inspect(scene.key);
      const told = queue.map(({ since: _since, until: _until, ...waiter }) => waiter);
      const { attempt } = first.request;
      const callers = [
        { host: 'host-2', pid: 7, where: 'Jobs.run', note: 'the note', owner: attempt, attempt },
        { host: 'host-3', pid: 8, where: '', note: '', owner: 'job 7', attempt: second.request.attempt },
      ] as const;
      same(
        told,
        [
          { ...callers[0], mode: 'write', take: 1, place: 1 },
          { ...callers[1], mode: 'read', take: 1, place: 2 },
        ],
        'the queue',
      );
      scene.sameTime(queue[0]!.since.getTime(), first.serverTimeMs, '`since`');
      same(queue[0]!.until?.getTime(), queue[0]!.since.getTime() + 5_000, '`until`');
      same(queue[1]!.until, null, '`until` of a wait without end');
    }),
    it('inspect() leaves out waiters whose waiter lease has ended', async (scene, a, b) => {
      await a.granted('the holder');
      await b.waits('the waiter', { waiterLeaseMs: SHORT_MS });
      await scene.nobodyWaits(a);
    }),
  ]),
];
