import { setDeadline } from '../../../core/clock.js';
import { MAX_SENTINEL_RETRIES, SENTINEL_COMMAND_TIMEOUT_MS } from '../../timing.js';
import { type ClientParts } from '../client-library.js';
import { type SentinelConnection, Sentinels } from '../sentinel-watch.js';
import { type ServerAddress, addressText } from '../server-address.js';
import { type ConnectionPlan, OwnConnection, type Target } from './own-connection.js';

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
  const group = {
    ...plan,
    isOpenToOthers: true,
    open: (at: ServerAddress, isNamed: boolean) => openSentinel(plan.sentinel(at), isNamed, parts),
  };
  const sentinels = new Sentinels(group, parts);
  const [first] = plan.sentinels;
  const targetAt = (at: ServerAddress): Target => ({
    ...(plan.master(at).target as Target),
    onReplica: () => sentinels.refute(at),
  });
  return {
    ...plan.master(first!),
    address: `sentinel ${plan.name} of ${addressText(first!)}`,
    target: async (signal) => targetAt(await sentinels.master(signal)),
    watchMaster: (onMaster) => sentinels.watch(onMaster),
  };
}

function openSentinel(plan: ConnectionPlan, isNamed: boolean, parts: ClientParts): SentinelConnection {
  const sentinel = OwnConnection.opened({ ...plan, ...(!isNamed && { maxFailures: MAX_SENTINEL_RETRIES }) }, parts);
  const inTime = <T>(answer: Promise<T>): Promise<T> => withDeadline(answer, parts);
  return {
    get isReady() {
      return sentinel.isWritable;
    },
    onError: (listener) => void sentinel.on('error', listener),
    onReady: (listener) => void sentinel.on('ready', listener),
    onClosed: (listener) => void sentinel.on('closed', listener),
    onEnded: (listener) => void sentinel.once('ended', listener),
    onMessage: (listener) => void sentinel.on('message', listener),
    command: (...words) => inTime(sentinel.send(words)),
    subscribe: (...channels) => inTime(Promise.all(channels.map((channel) => sentinel.subscribe(channel)))),
    ping: () => inTime(sentinel.send(['ping'])),
    reconnect: () => sentinel.reconnect(),
    close: () => sentinel.close(),
  };
}

async function withDeadline<T>(answer: Promise<T>, { clock }: ClientParts): Promise<T> {
  let cancel = (): void => undefined;
  const late = new Promise<never>((_resolve, reject) => {
    const fail = (): void => reject(new Error('the sentinel does not answer'));
    cancel = setDeadline(clock, fail, SENTINEL_COMMAND_TIMEOUT_MS);
  });
  return Promise.race([answer, late]).finally(() => cancel());
}
