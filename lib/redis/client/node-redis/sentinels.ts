import { setDeadline } from '../../../core/clock.js';
import { MAX_SENTINELS, MAX_SENTINEL_RETRIES, SENTINEL_COMMAND_TIMEOUT_MS } from '../../timing.js';
import { type ClientParts } from '../client-library.js';
import { type SentinelConnection, type SentinelGroup, SentinelWatch } from '../sentinel-watch.js';
import { type ServerAddress, addressText } from '../server-address.js';
import { askOnce, firstAnswer } from './first-answer.js';
import { type ConnectionPlan, OwnConnection } from './own-connection.js';

/** How the master of some sentinels is reached. */
export interface SentinelPlan {
  readonly name: string;
  readonly sentinels: readonly ServerAddress[];
  readonly sentinel: (at: ServerAddress) => ConnectionPlan;
  readonly master: (at: ServerAddress) => ConnectionPlan;
  readonly reachedBy: (announced: ServerAddress) => ServerAddress;
}

/** Turns it into the plan of a connection, which asks for the master each time that it is opened. */
export function planBySentinels(plan: SentinelPlan, parts: ClientParts): ConnectionPlan {
  const group = new Sentinels(plan, parts);
  const [first] = plan.sentinels;
  return {
    ...plan.master(first!),
    address: `sentinel ${plan.name} of ${addressText(first!)}`,
    target: async (signal) => plan.master(await group.master(signal)).target as never,
    watchMaster: (onMaster) => new SentinelWatch(group, onMaster, parts),
  };
}

/** The sentinels of one master. */
class Sentinels implements SentinelGroup {
  readonly isOpenToOthers = true;
  /** Those that the application named may be gone when they are needed. */
  readonly #known: Map<string, ServerAddress>;

  constructor(
    private readonly plan: SentinelPlan,
    private readonly parts: ClientParts,
  ) {
    this.#known = new Map(plan.sentinels.map((at) => [addressText(at), at]));
  }

  get name(): string {
    return this.plan.name;
  }

  get sentinels(): readonly ServerAddress[] {
    return this.plan.sentinels;
  }

  reachedBy(address: ServerAddress): ServerAddress {
    return this.plan.reachedBy(address);
  }

  /** Where the master is, in the words of the first sentinel that answers. */
  async master(signal: AbortSignal): Promise<ServerAddress> {
    const { plan, parts } = this;
    const question = ['sentinel', 'get-master-addr-by-name', plan.name];
    try {
      return await firstAnswer({
        candidates: [...this.#known.values()],
        ask: async (at, stop) => {
          const answer = await askOnce(plan.sentinel(at), parts, question, stop);
          const [host, port] = Array.isArray(answer) ? answer.map(String) : [];
          if (host === undefined) throw new Error(`the sentinel knows no master of the name "${plan.name}"`);
          return this.reachedBy({ host, port: Number(port) });
        },
        patienceMs: SENTINEL_COMMAND_TIMEOUT_MS,
        limitMs: plan.sentinel(plan.sentinels[0]!).connectTimeout + SENTINEL_COMMAND_TIMEOUT_MS,
        clock: parts.clock,
        signal,
        onFailure: () => undefined,
      });
    } catch (error) {
      throw new Error(`All sentinels are unreachable. Last error: ${(error as Error).message}`, { cause: error });
    }
  }

  open(at: ServerAddress, isNamed: boolean): SentinelConnection {
    const name = addressText(at);
    if (!isNamed && this.#known.size < MAX_SENTINELS) this.#known.set(name, at);
    const retries = isNamed ? {} : { maxFailures: MAX_SENTINEL_RETRIES };
    const connection = OwnConnection.opened({ ...this.plan.sentinel(at), ...retries }, this.parts);
    if (!isNamed) connection.once('ended', () => this.#known.delete(name));
    return this.#connectionBy(connection);
  }

  #connectionBy(sentinel: OwnConnection): SentinelConnection {
    return {
      get isReady() {
        return sentinel.isWritable;
      },
      onError: (listener) => void sentinel.on('error', listener),
      onReady: (listener) => void sentinel.on('ready', listener),
      onClosed: (listener) => void sentinel.on('closed', listener),
      onEnded: (listener) => void sentinel.once('ended', listener),
      onMessage: (listener) => void sentinel.on('message', listener),
      command: (...words) => this.#inTime(sentinel.send(words)),
      subscribe: (...channels) => this.#inTime(Promise.all(channels.map((channel) => sentinel.subscribe(channel)))),
      ping: () => this.#inTime(sentinel.send(['ping'])),
      reconnect: () => sentinel.reconnect(),
      close: () => sentinel.close(),
    };
  }

  async #inTime<T>(answer: Promise<T>): Promise<T> {
    let cancel = (): void => undefined;
    const late = new Promise<never>((_resolve, reject) => {
      const fail = (): void => reject(new Error('the sentinel does not answer'));
      cancel = setDeadline(this.parts.clock, fail, SENTINEL_COMMAND_TIMEOUT_MS);
    });
    return Promise.race([answer, late]).finally(() => cancel());
  }
}
