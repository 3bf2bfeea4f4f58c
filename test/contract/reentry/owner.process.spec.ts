import { startChildApp } from '../../support/processes/child-app.js';
import { eventually } from '../../support/waiting/eventually.js';
import { closeAll, freshKey, startApp } from '../../support/apps/lock-app.js';
import { itOnRedis } from '../../support/topologies/topology.js';
import { startMortal } from '../support/mortal.js';

describe('reentry across processes: two of them', () => {
  afterEach(closeAll);

  itOnRedis('share the lock under one owner, whatever their clocks, until the last one releases', async () => {
    const [here, ...there] = await Promise.all([startApp(), startChildApp(), startChildApp({}, 3_600_000)]);
    const [[one, two], key, owner] = [there, freshKey(), 'order-7'];
    const fencingToken = await one.acquire(key, { owner });
    expect(await two.tryAcquire(key, { owner: 'order-8' })).toBeNull();
    expect(await two.acquire(key, { owner, waitMs: 0 })).toBe(fencingToken);
    const { holders } = await here.locks.inspect(key);
    expect(new Set(holders.map(({ pid }) => pid))).toEqual(new Set([one.process.pid, two.process.pid]));
    expect(holders).toMatchObject([{ owner, fencingToken }, { owner, fencingToken }]); // prettier-ignore
    await one.release();
    expect([await one.isHeld(), await two.isHeld()]).toEqual([false, true]);
    expect(await here.locks.tryAcquire(key)).toBeNull();
    await two.release();
    expect((await here.locks.tryAcquire(key))!.fencingToken).toBeGreaterThan(fencingToken);
  });

  it('do not lose the lock when one of them is killed', async () => {
    const [here, one, two] = await Promise.all([startApp(), startMortal(), startMortal()]);
    const [key, owner] = [freshKey(), 'order-7'];
    const fencingToken = await one.acquire(key, { owner, leaseMs: 3_000 });
    await two.acquire(key, { owner });
    await one.kill();
    await eventually(async () => (await here.locks.inspect(key)).holders.length === 1, { timeoutMs: 20_000 });
    expect((await here.locks.inspect(key)).holders).toMatchObject([{ owner, fencingToken, pid: two.pid }]);
    expect([await two.isHeld(), await here.locks.tryAcquire(key)]).toEqual([true, null]);
    await two.release();
    expect(await here.locks.tryAcquire(key)).not.toBeNull();
  });
});
