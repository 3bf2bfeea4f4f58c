import { ManualClock, MemoryLockServer, MemoryLockStore } from '../../../lib/testing/index.js';

const REQUEST = { owner: undefined, mode: 'write', leaseMs: 30_000, waiterLeaseMs: 0, fair: true, permits: 0 } as const;

describe('forceRelease of a MemoryLockStore', () => {
  it('is never mistaken for the command of another operator', async () => {
    const server = new MemoryLockServer({ clock: new ManualClock() });
    const holder = new MemoryLockStore(server);
    for (let i = 0; i < 200; i += 1) {
      const attempt = `${holder.clientId}.${String(i).padStart(8, '0')}`;
      const reply = await holder.acquire({ ...REQUEST, keys: ['k'], attempt, holder: 'host:1' });
      expect([i, reply.outcome]).toEqual([i, 'granted']);
      expect([i, await new MemoryLockStore(server).forceRelease('k')]).toEqual([i, true]);
    }
  });
});
