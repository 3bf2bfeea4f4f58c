import { type Destination, nodeOf } from './cluster-nodes.js';
import { type LiveClient } from './live-client.js';
import { type RedisClient } from './redis-client.js';
import { isLost, isRetryable, isUnsent } from './redis-errors.js';

/** A command that is waited for. */
export interface UnderWay {
  isOver: boolean;
  wasSent: boolean;
  /** From whom the answer is awaited, or came; and from which node of a cluster. */
  sentBy: RedisClient | null;
  sentTo: Destination;
  /** When it was sent last, on the monotonic clock. */
  sentAt: number;
  /** Ends its wait for a connection. */
  wake: () => void;
}

/** How many connections in a row a command may lose, or not get: then it fails, and whoever sent it asks again. */
const LOSSES = 2;

/** Sends a command when there is a connection, and again when that was lost before the answer came, until it is over. */
export async function deliver<T>(
  live: LiveClient,
  clientNow: () => RedisClient,
  send: (client: RedisClient) => Promise<T>,
  to: Destination,
  command: UnderWay,
): Promise<T> {
  let { losses } = live.state;
  for (;;) {
    const client = await untilReady(live, clientNow, to, { command, losses });
    ({ losses } = live.state);
    const [{ epoch }, sentBefore] = [live, command.wasSent];
    const node = nodeOf(client, to);
    Object.assign(command, { wasSent: true, sentBy: client, sentTo: { node }, sentAt: live.clock.now() });
    const { sentAt } = command;
    try {
      const answer = await send(client);
      live.onAnswer(client, { node }, sentAt);
      return answer;
    } catch (error) {
      if (isUnsent(error as Error)) command.wasSent = sentBefore;
      if (!isLost(error as Error) || command.isOver) throw error;
      command.sentBy = null;
      // Without a loss it would be sent again at once, and again.
      if (live.epoch === epoch && live.isReady(client, to)) throw error;
    }
  }
}

async function untilReady(
  live: LiveClient,
  clientNow: () => RedisClient,
  to: Destination,
  { command, losses }: { readonly command: UnderWay; readonly losses: number },
): Promise<RedisClient> {
  for (;;) {
    if (command.isOver || live.isClosed) throw new Error('the connection was closed');
    const client = clientNow();
    if (live.isReady(client, to)) return client;
    if (client !== live.current) throw new Error('the connection was replaced');
    const { state } = live;
    if (state.lastError && !isRetryable(state.lastError)) throw state.lastError;
    if (live.hasEnded || state.losses - losses >= LOSSES) throw state.lastError ?? new Error('the connection was lost');
    await change(live, command);
  }
}

const change = (live: LiveClient, command: UnderWay): Promise<void> =>
  new Promise((resolve) => {
    const stop = live.state.onceChanged(resolve);
    command.wake = () => {
      stop();
      resolve();
    };
  });
