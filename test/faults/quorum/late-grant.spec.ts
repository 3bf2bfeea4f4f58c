import { eventually } from '../../support/waiting/eventually.js';
import { closeAll, freshKey } from '../../support/apps/lock-app.js';
import { heldRow, holdsOn, startNet } from '../../support/redis/quorum-net.js';

/** Of attempts that were given back. A node remembers the last seven. */
const USES = 10;

const LEASE = { leaseMs: 20_000 };

/** Three masters, and two apps that are connected to all of them. */
async function twoApps() {
  const net = await startNet(3);
  const [giver, taker] = [await net.app(), await net.app()];
  for (const { locks } of [giver, taker]) {
    await eventually(() => locks.withLock(freshKey(), () => locks.inspect('any').then(Boolean)));
  }
  /** All that the giver has asked the nodes for was done, and what it has sent because of an answer. */
  const heard = async (key: string): Promise<void> => {
    for (let i = 0; i < 2; i += 1) await giver.locks.inspect(key);
  };
  return { net, giver, taker, heard };
}

/** Transfers a lock before the last node hears of its grant; on a machine that is too slow for that, the next lock. */
async function transferEarly({ net, giver, taker }: Awaited<ReturnType<typeof twoApps>>) {
  giver.proxies[2]!.delayMs = 400;
  for (let tries = 1; ; tries += 1) {
    const key = freshKey();
    const lock = await giver.locks.acquire(key, LEASE);
    const text = await lock.transfer();
    const row = await heldRow(net.admins, key);
    if (tries === 10) expect(row).toBe('110');
    if (row === '110') return { key, text };
    await (await taker.locks.adopt(text)).release();
  }
}

describe('a grant of a late node of a quorum', () => {
  afterEach(closeAll);

  it.each(['before', 'after'])('takes nothing from a lock that was transferred, %s its adoption', async (when) => {
    const apps = await twoApps();
    const { net, taker, heard } = apps;
    const { key, text } = await transferEarly(apps);
    if (when === 'before') await heard(key);
    const adopted = await taker.locks.adopt(text);
    await heard(key);
    const [holds] = await holdsOn(net.admins, key);
    expect((await holdsOn(net.admins, key)).slice(0, 2)).toEqual([holds, holds]);
    expect([adopted.held, await taker.locks.tryAcquire(key)]).toEqual([true, null]);
    expect(await adopted.release()).toBe(true);
    await eventually(async () => (await heldRow(net.admins, key)) === '000');
  });

  it('is not asked for by the one that has transferred the lock, whose late renewal finds it gone', async () => {
    const { net, giver, taker, heard } = await twoApps();
    const key = freshKey();
    const lock = await giver.locks.acquire(key, { ...LEASE, mode: 'read' });
    await heard(key);
    giver.proxies[2]!.delayMs = 400;
    const adopted = await taker.locks.adopt(await lock.transfer());
    // The node remembers the last seven attempts that have ended.
    for (let i = 0; i < 10; i += 1) await taker.locks.withLock(key, { mode: 'read' }, async () => undefined);
    await heard(key);
    expect((await holdsOn(net.admins, key)).map((holds) => holds.length)).toEqual([1, 1, 1]);
    expect(await adopted.release()).toBe(true);
    await eventually(async () => (await heldRow(net.admins, key)) === '000');
  });
});

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
    await eventually(async () => (await slow.hexists(`lock:${key}`, 'r')) === 1);
    // The node forgets that it was given back.
    for (let i = 0; i < USES; i += 1) await b.locks.withLock(key, { waitMs: 5_000 }, () => undefined);
    // Answers come in the order of the commands: the renewal before the first, and what follows from it before the second.
    for (let i = 0; i < 2; i += 1) await a.locks.inspect(key);
    await eventually(async () => (await holdsOn(net.admins, key)).flat().length === 0, { timeoutMs: 2_000 });
  }, 60_000);
});
