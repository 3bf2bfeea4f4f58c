import { LockClaimedError } from '../../../lib/core/lock.errors.js';
import { claimFire } from '../../support/apps/claim-fire.js';
import { eventually } from '../../support/waiting/eventually.js';
import { hashOf, serverTime } from '../../support/redis/records.js';
import { rejection } from '../../support/waiting/rejection.js';
import { closeAll, freshKey, type LockApp } from '../../support/apps/lock-app.js';
import { dropHold, heldRow, type QuorumNet, runsOn, startNet, warmApps } from '../../support/redis/quorum-net.js';

afterEach(closeAll);

const WIDTH_MS = 600_000;

describe('fires that a quorum grants', () => {
  it('run once per slot, even when a call reaches the nodes on both sides of its border', async () => {
    const net = await startNet(3);
    const [z, a, b] = await warmApps(net, 3);
    const key = freshKey();
    const now = await serverTime(net.admins[0]!);
    const border = Math.floor(now / WIDTH_MS) * WIDTH_MS;
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

  it('belong to the slot in which the call was made, though a node is slow to report its time', async () => {
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
    const [a, b] = await warmApps(net, 2);
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
    const [a, b] = await warmApps(net, 2);
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

const FIRE_MS = 1_000;
const RERUN = { rerunOnLoss: true };
const SHORT = { leaseMs: 4_000 };
const PATIENT = { waitMs: 10_000 };

const isHeldOnAll = (net: QuorumNet, key: string) =>
  eventually(async () => (await heldRow(net.admins, key)) === '111', { timeoutMs: 15_000 });

/** A node loses its data, and is given the hold again. */
async function loseData(net: QuorumNet, key: string, node: number): Promise<void> {
  await net.admins[node]!.del(`lock:${key}`);
  await isHeldOnAll(net, key);
}

/** Two apps; the first one holds the lock of a fire on all nodes. */
async function startRun(fire: Parameters<typeof claimFire>[2] = {}) {
  const net = await startNet(3);
  const [a, b] = await warmApps(net, 2);
  const key = freshKey();
  const lock = await claimFire(a, key, { ms: FIRE_MS, ...fire }, SHORT);
  await isHeldOnAll(net, key);
  return { net, a, b, key, lock };
}

describe('a node of a quorum that is given the hold of a running job again', () => {
  it('learns its fire, so that no instance runs it again when the holder dies', async () => {
    const { net, a, b, key } = await startRun();
    await loseData(net, key, 1);
    await loseData(net, key, 2);
    a.reaches();
    expect(await rejection(claimFire(b, key, { ms: FIRE_MS }, PATIENT))).toBeInstanceOf(LockClaimedError);
  }, 30_000);

  it('learns the outcome of its run, though another node does not', async () => {
    const { net, a, b, key, lock } = await startRun(RERUN);
    await loseData(net, key, 1);
    a.reaches(0, 1);
    expect(await lock.releaseAfter('done')).toBe(true);
    a.reaches();
    b.reaches(1, 2);
    const again = claimFire(b, key, { ms: FIRE_MS, ...RERUN }, PATIENT);
    expect(await rejection(again)).toBeInstanceOf(LockClaimedError);
    expect(await runsOn(net.admins, key)).toEqual(['1000 done', '1000 done', '1000 -']);
  }, 30_000);

  it('learns the time of a run that keeps its distance from the last one', async () => {
    const distance = { kind: 'gap', ms: 600_000 } as const;
    const { net, b, key, lock } = await startRun(distance);
    await loseData(net, key, 1);
    await loseData(net, key, 2);
    await lock.releaseAfter('done');
    b.reaches(1, 2);
    expect(await rejection(claimFire(b, key, distance))).toBeInstanceOf(LockClaimedError);
  }, 30_000);

  it('learns the fire of a lock that only reads by now', async () => {
    const { net, key, lock } = await startRun();
    await lock.downgrade();
    await loseData(net, key, 1);
    expect(await runsOn(net.admins, key)).toEqual(['1000 -', '1000 -', '1000 -']);
    await lock.releaseAfter('done');
  }, 30_000);

  it('keeps the run that it knows when it has lost the hold alone', async () => {
    const { net, key, lock } = await startRun();
    await dropHold(net.admins[1]!, key);
    await isHeldOnAll(net, key);
    expect(await runsOn(net.admins, key)).toEqual(['1000 -', '1000 -', '1000 -']);
    await lock.releaseAfter('failed');
    await eventually(async () => (await runsOn(net.admins, key)).every((run) => run === '1000 failed'));
  }, 30_000);

  it('takes over the open run that a dead claim of the same fire has left there', async () => {
    const { net, key, lock } = await startRun(RERUN);
    await net.admins[1]!.hset(`lock:${key}`, 'job:Jobs.run', `${FIRE_MS} client.dead ${FIRE_MS} 0 - x:1 ;${FIRE_MS};`);
    await dropHold(net.admins[1]!, key);
    await isHeldOnAll(net, key);
    await lock.releaseAfter('done');
    await eventually(async () => (await runsOn(net.admins, key)).every((run) => run === '1000 done'));
  }, 30_000);

  it('takes the hold also when it knows the fire without the run', async () => {
    const { net, key } = await startRun();
    // Another claim had replaced the run, and was given back.
    await net.admins[1]!.hset(`lock:${key}`, 'job:Jobs.run', `0 - 0 0 void - ;${FIRE_MS};`);
    await dropHold(net.admins[1]!, key);
    await isHeldOnAll(net, key);
    expect(await runsOn(net.admins, key)).toEqual(['1000 -', undefined, '1000 -']);
  }, 30_000);
});
