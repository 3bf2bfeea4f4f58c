import { LockClaimedError } from '../../../lib/core/lock.errors.js';
import { claimFire } from '../../support/apps/claim-fire.js';
import { eventually } from '../../support/waiting/eventually.js';
import { hashOf, serverTime } from '../../support/redis/records.js';
import { rejection } from '../../support/waiting/rejection.js';
import { type LockApp, closeAll, freshKey } from '../../support/apps/lock-app.js';
import { heldRow, runsOn, startNet } from '../../support/redis/quorum-net.js';

const WIDTH_MS = 600_000;

describe('fires that a quorum grants', () => {
  afterEach(closeAll);

  it('run once per slot, even when a call reaches the nodes on both sides of its border', async () => {
    const net = await startNet(3);
    const [z, a, b] = [await net.app(), await net.app(), await net.app()];
    const key = freshKey();
    const now = await serverTime(net.admins[0]!);
    const border = Math.floor(now / WIDTH_MS) * WIDTH_MS;
    for (const app of [z, a, b]) await app.locks.withLock(freshKey(), () => undefined);
    /** A call that belongs to this time, if it arrives at once. */
    const slotAt = async (ms: number) => {
      const age = (await serverTime(net.admins[0]!)) - ms;
      return { kind: 'slot', ms: WIDTH_MS, rememberMs: 2 * WIDTH_MS, calledAt: a.locker.clock.now() - age } as const;
    };
    const runs: string[] = [];
    const run = async (name: string, app: LockApp, at: number) => {
      const lock = await claimFire(app, key, await slotAt(at)).catch((error: unknown) => error as Error);
      if (lock instanceof Error) return;
      runs.push(name);
      await lock.releaseAfter('done');
    };
    z.reaches(1, 2);
    await run('z', z, border - 60_000);
    a.reaches(0, 1);
    a.proxies[1]!.delayMs = 200;
    await run('a', a, border - 100);
    await run('b', b, border + 60_000);
    // Two slots.
    expect(runs.length).toBeLessThanOrEqual(2);
  });

  it('belong to the slot in which the call was made, though a node is slow to tell its time', async () => {
    const net = await startNet(3);
    const app = await net.app();
    await app.locks.withLock(freshKey(), () => undefined);
    for (const proxy of app.proxies.slice(1)) proxy.delayMs = 60;
    const [key, width] = [freshKey(), 200];
    for (let call = 0; call < 5; call += 1) {
      // Early in a slot, so that a call which looked earlier would be in the one before.
      await eventually(async () => (await serverTime(net.admins[0]!)) % width < 30, { intervalMs: 1 });
      const before = await serverTime(net.admins[0]!);
      const lock = await claimFire(app, `${key}${call}`, { kind: 'slot', ms: width }, { waitMs: 10_000 });
      await lock.releaseAfter('done');
      const run = await app.locks.lastRun(`${key}${call}`);
      expect(run!.fire.getTime()).toBeGreaterThanOrEqual(Math.floor(before / width) * width);
    }
  });

  it('are not lost when a claim was cancelled before it was granted', async () => {
    const net = await startNet(3);
    const [a, b] = [await net.app(), await net.app()];
    for (const app of [a, b]) await app.locks.withLock(freshKey(), () => undefined);
    const key = freshKey();
    for (const proxy of a.proxies) proxy.delayMs = 100;
    const controller = new AbortController();
    const failed = rejection(claimFire(a, key, {}, { signal: controller.signal }));
    await eventually(async () => (await hashOf(net.admins[0]!, key))['run:Jobs.run'] !== undefined);
    controller.abort(new Error('given up'));
    await failed;
    await eventually(async () => Object.values(a.locker.live).every((count) => count === 0));
    const lock = await claimFire(b, key, {}).catch((error: unknown) => error);
    expect(lock).not.toBeInstanceOf(LockClaimedError);
  });

  it('are not granted again when only one node knows that they were run, and answers last', async () => {
    const net = await startNet(3);
    const [a, b] = [await net.app(), await net.app()];
    for (const app of [a, b]) await app.locks.withLock(freshKey(), () => undefined);
    const key = freshKey();
    await (await claimFire(a, key)).releaseAfter('done');
    await eventually(async () => (await runsOn(net.admins, key)).join() === '1000 done,1000 done,1000 done');
    for (const admin of net.admins.slice(1)) await admin.del(`lock:${key}`);
    b.proxies[0]!.delayMs = 30;
    const again = claimFire(b, key, {}, { leaseMs: 20_000 });
    expect(await rejection(again)).toBeInstanceOf(LockClaimedError);
    await eventually(async () => (await heldRow(net.admins, key)) === '000');
  });
});
