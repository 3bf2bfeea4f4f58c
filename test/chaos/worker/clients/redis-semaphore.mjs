// redis-semaphore: a Mutex on one server, a RedlockMutex on several; both refresh their locks.
import { connectAll, requirePeer } from './peer.mjs';

const { Mutex, RedlockMutex } = requirePeer('redis-semaphore');

export async function open(connection) {
  const { clients, close } = connectAll(connection);
  return {
    close,
    async use({ keys, leaseMs, waitMs }, work) {
      let tell = () => undefined;
      let isLost = false;
      const options = {
        lockTimeout: leaseMs,
        refreshInterval: Math.floor(leaseMs / 3),
        acquireTimeout: Math.max(waitMs, 1),
        retryInterval: 20,
        onLockLost: () => {
          isLost = true;
          tell('lost');
        },
      };
      const key = `chaos:${keys[0]}`;
      const mutex = clients.length > 1 ? new RedlockMutex(clients, key, options) : new Mutex(clients[0], key, options);
      await mutex.acquire();
      await work({
        tokens: null,
        held: () => mutex.isAcquired && !isLost,
        // It does not report how long the lease lasts.
        until: () => Infinity,
        onLost: (listener) => (tell = listener),
        release: async () => {
          await mutex.release();
          return !isLost;
        },
      });
    },
  };
}
