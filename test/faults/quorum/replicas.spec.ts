import { type LockStoreError } from '../../../lib/index.js';
import { eventually } from '../../support/waiting/eventually.js';
import { rejection } from '../../support/waiting/rejection.js';
import { closeAll, freshKey, startApp } from '../../support/apps/lock-app.js';
import { dropHold, heldRow } from '../../support/redis/quorum-net.js';
import { hashOf } from '../../support/redis/records.js';
import { claimFire } from '../../support/apps/claim-fire.js';
import { startFarReplicated } from '../../support/redis/far-replica.js';

/** Three masters with a replica each, which answers after `roundTripMs`; an app that asks them to confirm. */
async function start(roundTripMs: number, replicaTimeoutMs: number, leaseMs: number) {
  const masters = await Promise.all([startFarReplicated(), startFarReplicated(), startFarReplicated()]);
  const connection = masters.map(({ url }) => url);
  const options = { connection, leaseMs, minReplicas: 1, replicaTimeoutMs };
  const apps = [await startApp(options), await startApp(options)] as const;
  for (const { locks } of apps) await locks.withLock(freshKey(), () => undefined);
  for (const master of masters) master.roundTripMs = roundTripMs;
  return { masters, apps, admins: masters.map(({ admin }) => admin) };
}

describe('a quorum whose grants are confirmed by replicas', () => {
  afterEach(closeAll);

  it('waits for the replicas up to `replicaTimeoutMs`', async () => {
    const { apps, admins } = await start(400, 1_500, 4_000);
    const key = freshKey();
    const lock = await apps[0].locks.acquire(key);
    await eventually(async () => (await heldRow(admins, key)) === '111');
    expect(await apps[1].locks.tryAcquire(key)).toBeNull();
    const waiting = apps[1].locks.acquire(key, { waitMs: 20_000 });
    await eventually(async () => (await apps[0].locks.inspect(key)).waiters === 1);
    await lock.release();
    await (await waiting).release();
  });

  it('gives back what the replicas did not confirm in time, and says so', async () => {
    const { masters, apps, admins } = await start(0, 300, 8_000);
    for (const master of masters) master.roundTripMs = 4_000;
    const key = freshKey();
    const error = await rejection<LockStoreError>(apps[0].locks.acquire(key, { waitMs: 500 }));
    expect(error.message).toContain('Only 0 of 1 replicas confirmed');
    await eventually(async () => (await heldRow(admins, key)) === '000');
  });

  it('keeps the fire of a running job on a master whose replicas do not confirm that it has the hold again', async () => {
    const { masters, apps, admins } = await start(0, 300, 3_000);
    const [key, admin] = [freshKey(), admins[1]!];
    const lock = await claimFire(apps[0], key);
    await eventually(async () => (await heldRow(admins, key)) === '111');
    masters[1].roundTripMs = 4_000;
    await dropHold(admin, key);
    await eventually(async () => (await admin.hexists(`lock:${key}`, 'late')) === 1, { timeoutMs: 10_000 });
    expect((await hashOf(admin, key))['run:Jobs.run']).toMatch(/^1000 .* -$/);
    await lock.releaseAfter('done');
  }, 30_000);
});
