// redlock 5 beta: `using`, which extends the lock by itself and reports a loss by a signal.
import { connectAll, requirePeer } from './peer.mjs';

const { default: Redlock } = requirePeer('redlock');
const RETRY_MS = 50;
/** A try takes a pause and a round trip; fewer tries than that keep to `waitMs`. */
const TRY_MS = 70;

export async function open(connection) {
  const { clients, close } = connectAll(connection);
  const redlock = new Redlock(clients, { retryDelay: RETRY_MS, retryJitter: 20 });
  redlock.on('error', () => undefined);
  return {
    close,
    async use({ keys, leaseMs, waitMs }, work) {
      const settings = {
        retryCount: Math.floor(waitMs / TRY_MS),
        automaticExtensionThreshold: Math.min(500, Math.floor(leaseMs / 2)),
      };
      let isGranted = false;
      const run = async (signal) => {
        isGranted = true;
        await work(holdOf(signal));
      };
      await redlock.using([`chaos:${keys[0]}`], leaseMs, settings, run).catch((error) => {
        if (!isGranted) throw error;
      });
    },
  };
}

const holdOf = (signal) => ({
  tokens: null,
  held: () => !signal.aborted,
  // It does not report to its work how long the lease lasts.
  until: () => Infinity,
  onLost: (tell) => signal.addEventListener('abort', () => tell('aborted')),
  // `using` releases it when the work ends.
  release: async () => !signal.aborted,
});
