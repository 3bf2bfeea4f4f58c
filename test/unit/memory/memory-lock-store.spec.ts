import { NO_FACTS } from '../../../lib/core/history/history-entry.js';
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

describe('the history of a MemoryLockStore', () => {
  it('is forgotten when its time is over, also when nothing more is written, and hands out copies', async () => {
    const clock = new ManualClock();
    const { history } = new MemoryLockStore(new MemoryLockServer({ clock }));
    const record = { ...NO_FACTS, event: 'acquired', key: 'k', at: clock.now() } as const;
    const terms = { host: 'host', pid: 1, maxEntries: 100, keepMs: 60_000 };
    await history.append({ ...terms, id: 'a.1', now: clock.now(), records: [record] });
    const [entry] = await history.read({ limit: 10 });
    entry!.at.setTime(0);
    expect((await history.read({ limit: 10 }))[0]!.at.getTime()).not.toBe(0);
    await clock.advance(59_999);
    expect(await history.read({ limit: 10 })).toHaveLength(1);
    await clock.advance(1);
    expect(await history.read({ limit: 10 })).toEqual([]);
  });
});
