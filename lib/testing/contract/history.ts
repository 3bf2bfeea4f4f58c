import {
  type LockHistoryBatch,
  type LockHistoryEntry,
  type LockHistoryRecord,
  type LockHistoryStore,
  NO_FACTS,
} from '../../core/history/history-entry.js';
import { type Client } from './kit/client.js';
import { type PortCase } from './kit/port-case.js';
import { promised, same } from './kit/promised.js';
import { type Scene } from './kit/scene.js';

const KEEP_MS = 600_000;

/** What happened to a lock, `agoMs` before a time of the process. */
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

/** The entries of this case: a history may have those of others. */
async function entriesOf(scene: Scene, client: Client, key?: string, limit = 10_000): Promise<LockHistoryEntry[]> {
  const read = historyOf(client).read({ key, limit });
  const entries = await scene.time.answer('a reading of the history', read);
  return entries.filter(({ keys }) => keys.some((one) => one.startsWith(scene.prefix)));
}

const shown = (entries: readonly LockHistoryEntry[]): readonly string[] => entries.map(({ key }) => key);

/** What a store with a `history` keeps of it. */
export const HISTORY: readonly PortCase[] = [
  {
    name: 'history.read() returns every entry that any client has added, as it was, the newest first',
    needs: ['history'],
    async run(scene) {
      const [a, b] = await scene.clients();
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
    },
  },
  {
    name: 'an entry has the time at which it happened, by the clock of the store, in the order of its process',
    needs: ['history'],
    async run(scene) {
      const client = await scene.client();
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
    },
  },
  {
    name: 'a batch that is sent twice is read once, and read() returns at most as many entries as it is asked for',
    needs: ['history'],
    async run(scene) {
      const client = await scene.client();
      const now = scene.time.now();
      const keys = ['a', 'b', 'c'].map((name) => [scene.prefix + name]);
      const id = await append({ scene, client, now }, keys);
      await append({ scene, client, now }, keys, { id });
      same(shown(await entriesOf(scene, client)), keys.flat().toReversed(), 'the keys of the entries');
      same((await historyOf(client).read({ limit: 2 })).length, 2, 'the number of entries');
    },
  },
  {
    name: 'history.read() of a key returns what is about that key, also among several, and no other key with its text',
    needs: ['history'],
    async run(scene) {
      const client = await scene.client();
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
    },
  },
];
