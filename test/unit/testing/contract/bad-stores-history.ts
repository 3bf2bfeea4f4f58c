import {
  type LockHistoryBatch,
  type LockHistoryEntry,
  type LockHistoryQuery,
  type LockHistoryStore,
} from '../../../../lib/core/history/history-entry.js';
import { MemoryLockStore } from '../../../../lib/testing/index.js';
import { type BadStore } from './bad-stores.js';

/** A store of which only the history is bad. */
const badHistory = (change: (history: LockHistoryStore) => LockHistoryStore): BadStore['store'] =>
  class extends MemoryLockStore {
    override readonly history: LockHistoryStore;

    constructor(...args: ConstructorParameters<typeof MemoryLockStore>) {
      super(...args);
      this.history = change(new MemoryLockStore(...args).history);
    }
  };

const badRead = (
  change: (entries: readonly LockHistoryEntry[], query: LockHistoryQuery) => readonly LockHistoryEntry[],
) =>
  badHistory((history) => ({
    append: (batch) => history.append(batch),
    read: async (query) => change(await history.read({ limit: 10_000 }), query),
  }));

const badAppend = (change: (batch: LockHistoryBatch) => LockHistoryBatch) =>
  badHistory((history) => ({
    append: (batch) => history.append(change(batch)),
    read: (query) => history.read(query),
  }));

const isAbout = ({ keys }: LockHistoryEntry, key: string | undefined): boolean =>
  key === undefined || keys.includes(key);

const READ_AS_IT_WAS = 'history.read() returns every entry that any client has added, as it was, the newest first';
const OF_A_KEY =
  'history.read() of a key returns what is about that key, also among several, and no other key with its text';

/** Stores that are bad at the history of the locks. */
export const BAD_HISTORIES: readonly BadStore[] = [
  {
    name: 'the history has the oldest entry first',
    store: badRead((all) => all.toReversed()),
    noticedBy: READ_AS_IT_WAS,
  },
  {
    name: 'the history forgets the notes',
    store: badAppend((batch) => ({ ...batch, records: batch.records.map((one) => ({ ...one, note: undefined })) })),
    noticedBy: READ_AS_IT_WAS,
  },
  {
    name: 'the entries have the time at which they were written',
    store: badAppend((batch) => ({ ...batch, records: batch.records.map((one) => ({ ...one, at: batch.now })) })),
    noticedBy: 'an entry has the time at which it happened, by the clock of the store, in the order of its process',
  },
  {
    name: 'a batch that comes twice is there twice',
    store: badAppend((batch) => ({ ...batch, id: `${batch.id}-${Math.random()}` })),
    noticedBy: 'a batch that is sent twice is read once, and read() returns at most as many entries as it is asked for',
  },
  {
    name: 'the history has no limit',
    store: badRead((all, { key }) => all.filter((entry) => isAbout(entry, key))),
    noticedBy: 'a batch that is sent twice is read once, and read() returns at most as many entries as it is asked for',
  },
  {
    name: 'a key with a comma counts as several',
    store: badRead((all, { key = '', limit }) =>
      all.filter((entry) => `, ${entry.key}, `.includes(key === '' ? '' : `, ${key}, `)).slice(0, limit),
    ),
    noticedBy: OF_A_KEY,
  },
  {
    name: 'the history of a key lacks the locks of several keys',
    store: badRead((all, { key, limit }) => all.filter((entry) => !key || entry.key === key).slice(0, limit)),
    noticedBy: OF_A_KEY,
  },
];
