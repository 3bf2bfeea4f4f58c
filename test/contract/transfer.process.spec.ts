import { startChildApp } from '../support/processes/child-app.js';
import { closeAll, freshKey, startApp } from '../support/apps/lock-app.js';
import { itOnRedis } from '../support/topologies/topology.js';
import { eventually } from '../support/waiting/eventually.js';

const PATIENT = { waitMs: 25_000 };

describe('a lock that changes hands', () => {
  afterEach(closeAll);

  itOnRedis(
    'continues in another process when the first one is killed, and reports its loss to the first one',
    async () => {
      const [first, second] = [await startChildApp(), await startChildApp()];
      const observer = await startApp();
      const key = freshKey();
      const token = await first.acquire(key, { leaseMs: 10_000 });
      const text = await first.transfer();
      expect(await first.isHeld()).toBe(false);
      await first.kill();
      expect(await second.adopt(text)).toBe(token);
      const { holders } = await observer.locks.inspect(key);
      expect(holders).toMatchObject([{ pid: second.process.pid, fencingToken: token }]);
      const renewedAt = holders[0]!.remainingMs;
      await eventually(async () => ((await observer.locks.inspect(key)).holders[0]?.remainingMs ?? 0) < renewedAt);
      expect([await second.isHeld(), await observer.locks.tryAcquire(key)]).toEqual([true, null]);
      const lost = second.lost();
      await observer.locks.forceRelease(key);
      expect(await lost).toBe('revoked');
    },
  );

  itOnRedis('notifies the process that adopted it when its lease runs out', async () => {
    const [first, second, observer] = [await startChildApp(), await startChildApp(), await startApp()];
    const key = freshKey();
    await first.acquire(key, { leaseMs: 5_000 });
    const text = await first.transfer();
    await first.kill();
    await second.adopt(text, { renew: false });
    const next = observer.locks.acquire(key, PATIENT);
    expect(await second.lost()).toBe('expired');
    expect((await next).held).toBe(true);
  });
});
