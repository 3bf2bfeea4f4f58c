import { type Locker } from '../acquire/locker.js';
import { EventListeners } from '../event-listeners.js';
import { type LockEvent, type LockEventMap, type LockEvents } from '../lock.events.js';
import { readHolderText } from '../store/holder-text.js';
import { checkKeyOf, hasHistory, storeWith } from '../store/capabilities.js';
import { type LockStore } from '../store/lock-store.js';
import { HISTORY_FLUSH_MS } from '../timing.js';
import { HistoryBuffer } from './history-buffer.js';
import {
  type HistoryLimits,
  type LockHistoryEntry,
  type LockHistoryFacts,
  type LockHistoryQuery,
  NO_FACTS,
  checkHistoryQuery,
} from './history-entry.js';

/** The parts of a locker that the history uses. */
type HistoryHost = Pick<Locker, 'clock' | 'timers' | 'reporter' | 'events' | 'awaited' | 'instance'>;

/** The history of the locks of one module: written from the events, if the option `history` is set, and read from the store. */
export class LockHistory {
  readonly #buffer: HistoryBuffer | null = null;
  readonly #listeners: EventListeners | null = null;

  /**
   * `limits`: null: no history is written.
   * @throws LockConfigurationError when the store keeps no history
   */
  constructor(
    private readonly host: HistoryHost,
    private readonly store: LockStore,
    limits: HistoryLimits | null,
  ) {
    if (!limits) return;
    const { history } = storeWith(store, hasHistory, 'the option `history` of RedisLockModule');
    const { clock, timers, reporter } = host;
    const { host: name, pid } = readHolderText(host.instance);
    this.#buffer = new HistoryBuffer({
      clock,
      timers,
      reporter,
      terms: { host: name, pid, ...limits },
      clientId: store.clientId,
      append: async (batch) => history.append(batch),
    });
    this.#listeners = listen(host.events, this.#buffer);
  }

  /** Whether this module writes a history. */
  get isWritten(): boolean {
    return this.#buffer !== null;
  }

  /**
   * Reads the entries of all instances, after those of this one are written.
   * @throws LockStoreError, LockKeyError, LockConfigurationError
   */
  async read(options: Partial<LockHistoryQuery>): Promise<readonly LockHistoryEntry[]> {
    const query = checkHistoryQuery(options);
    if (query.key !== undefined) checkKeyOf(this.store, query.key);
    const { history } = storeWith(this.store, hasHistory, '`history()`');
    const read = async (): Promise<readonly LockHistoryEntry[]> => {
      if (this.#buffer) await this.host.timers.withTimeout(HISTORY_FLUSH_MS, this.#buffer.flush());
      return history.read(query);
    };
    return this.host.awaited.keepAlive(read());
  }

  /** The module closes: writes the remaining records, within a limit. */
  async close(): Promise<void> {
    this.#listeners?.stop();
    await this.#buffer?.close();
  }
}

/**
 * Reasons of expected skips: another call runs the job, leads, or shares its result. Each instance would write an entry for each
 * fire, and displace entries of more use; the entries of the lock name its holder.
 */
const UNTOLD: ReadonlySet<LockEventMap['skipped']['reason']> = new Set(['claimed', 'not-leader', 'shared']);

type SomeFacts = Pick<LockHistoryFacts, 'event'> & Partial<LockHistoryFacts>;

const factsOf = ({ key, keys, mode, where, note }: LockEvent, facts: SomeFacts): LockHistoryFacts => {
  return { ...NO_FACTS, key, keys, mode, where: where || undefined, note, ...facts };
};

const held = ({ heldMs: ms, fencingToken }: LockEventMap['released' | 'transferred' | 'lost']) => ({
  ms,
  fencingToken,
});

export const lossOf = (event: LockEventMap['lost']): LockHistoryFacts =>
  factsOf(event, { event: 'lost', reason: event.reason, ...held(event) });

/** Records the events in the buffer. Events that repeat another one, or add nothing, are left out. */
function listen(events: LockEvents, buffer: HistoryBuffer): EventListeners {
  const add = (event: LockEvent, facts: SomeFacts) => buffer.add(factsOf(event, facts));
  return new EventListeners(events)
    .on('acquired', (event) => {
      add(event, { event: 'acquired', ms: event.waitedMs, fencingToken: event.fencingToken });
    })
    .on('adopted', (event) => add(event, { event: 'acquired', reason: 'adopted', fencingToken: event.fencingToken }))
    .on('waiting', (event) => add(event, { event: 'waited', reason: event.holder }))
    .on('released', (event) => add(event, { event: 'released', ...held(event) }))
    .on('transferred', (event) => add(event, { event: 'released', reason: 'transferred', ...held(event) }))
    .on('lost', (event) => buffer.add(lossOf(event)))
    .on('skipped', (event) => {
      if (!UNTOLD.has(event.reason)) add(event, { event: 'skipped', reason: event.reason });
    })
    .on('forced', (event) => add(event, { event: 'forced', mode: undefined, by: event.by }))
    .on('acquireFailed', (event) => {
      if (event.reason !== 'claimed') add(event, { event: 'failed', ms: event.waitedMs, reason: event.reason });
    });
}
