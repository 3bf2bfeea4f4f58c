import { eventually } from '../../support/waiting/eventually.js';
import { closeAll, freshKey, startApp } from '../../support/apps/lock-app.js';
import { givenClient } from '../../support/redis/connections.js';
import { heldRow, startNet } from '../../support/redis/quorum-net.js';

describe('a quorum, when messages are late', () => {
  afterEach(closeAll);

  it('never has two holders when a release of an earlier round arrives late', async () => {
    const net = await startNet(3);
    const key = freshKey();
    const [first, second, third] = [await net.app(), await net.app(), await net.app()];
    for (const { locks } of [first, second, third]) await locks.withLock(freshKey(), () => undefined);
    first.reaches(0, 1);
    const held = await first.locks.acquire(key, { leaseMs: 20_000 });

    // The third node grants, but so late that the vote is over. A release of it now, which would take long on its way, could
    // take the grant away that a later round counts: so none is sent while the attempt lives.
    const way = second.proxies[2]!;
    way.delayMs = 200;
    let isVoteOver = false;
    second.locks.events.on('waiting', () => (isVoteOver = true));
    const waiting = second.locks.acquire(key, { leaseMs: 6_000, waitMs: 20_000 });
    await eventually(async () => (await heldRow(net.admins, key)) === '111');
    await eventually(() => isVoteOver);
    expect(await heldRow(net.admins, key)).toBe('111');
    way.delayMs = 0;
    second.reaches(0, 2);
    await held.release();
    const lock = await waiting;
    expect(await heldRow(net.admins, key)).toBe('101');
    expect(await third.locks.tryAcquire(key)).toBeNull();
    expect(lock.held).toBe(true);
  }, 60_000);

  it('accepts clients of the application as its nodes', async () => {
    const net = await startNet(3);
    const { locks } = await startApp({ connection: net.servers.map(({ url }) => givenClient(url)) });
    expect(await locks.withLock(freshKey(), () => 'done')).toBe('done');
  });
});
