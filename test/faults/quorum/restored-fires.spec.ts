import { LockClaimedError } from '../../../lib/core/lock.errors.js';
import { claimFire } from '../../support/apps/claim-fire.js';
import { closeAll, freshKey } from '../../support/apps/lock-app.js';
import { type QuorumNet, dropHold, heldRow, runsOn, startNet } from '../../support/redis/quorum-net.js';
import { eventually } from '../../support/waiting/eventually.js';
import { rejection } from '../../support/waiting/rejection.js';

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
  const [a, b] = [await net.app(), await net.app()];
  for (const app of [a, b]) await app.locks.withLock(freshKey(), () => undefined);
  const key = freshKey();
  const lock = await claimFire(a, key, { ms: FIRE_MS, ...fire }, SHORT);
  await isHeldOnAll(net, key);
  return { net, a, b, key, lock };
}

describe('a node of a quorum that is given the hold of a running job again', () => {
  afterEach(closeAll);

  it('learns its fire, so that nobody runs it again when the holder dies', async () => {
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
