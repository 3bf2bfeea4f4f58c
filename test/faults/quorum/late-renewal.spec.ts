import { eventually } from '../../support/waiting/eventually.js';
import { hashOf } from '../../support/redis/records.js';
import { closeAll, freshKey } from '../../support/apps/lock-app.js';
import { heldRow, holdsOn, startNet } from '../../support/redis/quorum-net.js';

/** Of attempts that were given back. A node remembers the last seven. */
const USES = 10;

describe('a node of a quorum that has lost a lock', () => {
  afterEach(closeAll);

  it('does not get it again when it reports that after the release', async () => {
    const net = await startNet(3);
    const [a, b] = [await net.app(), await net.app()];
    const slow = net.admins[2]!;
    const key = freshKey();
    const lock = await a.locks.acquire(key, { leaseMs: 6_000 });
    await eventually(async () => (await heldRow(net.admins, key)) === '111');
    const renewed = new Promise((resolve) => a.locks.events.on('renewed', resolve));
    await slow.del(`lock:${key}`);
    a.proxies[2]!.delayMs = 200;
    await renewed;
    await lock.release();
    await eventually(async () => 'released' in (await hashOf(slow, key)));
    // The node forgets that it was given back.
    for (let i = 0; i < USES; i += 1) await b.locks.withLock(key, { waitMs: 5_000 }, () => undefined);
    // Answers come in the order of the commands: the renewal before the first, and what follows from it before the second.
    for (let i = 0; i < 2; i += 1) await a.locks.inspect(key);
    await eventually(async () => (await holdsOn(net.admins, key)).flat().length === 0, { timeoutMs: 2_000 });
  }, 60_000);
});
