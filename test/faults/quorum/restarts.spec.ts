import { setTimeout as sleep } from 'node:timers/promises';
import { type Lock } from '../../../lib/index.js';
import { claimFire } from '../../support/apps/claim-fire.js';
import { eventually } from '../../support/waiting/eventually.js';
import { loadScripts, startAgain } from '../../support/redis/own-redis.js';
import { type LockApp, closeAll, closeLater, freshKey } from '../../support/apps/lock-app.js';
import { type QuorumNet, holdsOn, startNet } from '../../support/redis/quorum-net.js';
import { rejection } from '../../support/waiting/rejection.js';

const LEASE_MS = 4_000;

/** Tries again and again to get in, until it is closed; gives what it got. */
function besiege({ locks }: LockApp, key: string) {
  const stopped = new AbortController();
  const got: Lock[] = [];
  const run = async (): Promise<void> => {
    while (!stopped.signal.aborted) {
      const lock = await locks.tryAcquire(key).catch(() => null);
      if (lock) got.push(lock);
      await sleep(20);
    }
  };
  const running = run();
  const close = async (): Promise<readonly Lock[]> => {
    stopped.abort();
    await running;
    return got;
  };
  return closeLater({ close });
}

/** The attempt that holds it on all nodes, for an instant also beside others that got the vote of a node. */
const holderOf = ({ admins }: QuorumNet, key: string): Promise<string> =>
  eventually(
    async () => {
      const holds = await holdsOn(admins, key);
      return holds[0]!.find((attempt) => holds.every((there) => there.includes(attempt)));
    },
    { timeoutMs: 20_000 },
  );

/** Restarts one node after the other without data; each is given time to get back what it had. */
async function restartAll(net: QuorumNet, key: string): Promise<void> {
  const { servers, admins } = net;
  const holder = await holderOf(net, key);
  for (const [i, server] of servers.entries()) {
    await server.kill();
    await startAgain(server);
    await eventually(() => loadScripts(admins[i]!).then(() => true));
    await eventually(async () => (await holderOf(net, key)) === holder);
  }
}

describe('nodes that restart without their data, one after the other', () => {
  afterEach(closeAll);

  it('get the lock again as soon as they are back, and admit nobody else', async () => {
    const net = await startNet(3);
    const [a, b] = [await net.app(), await net.app()];
    const key = freshKey();
    const lock = await a.locks.acquire(key, { leaseMs: LEASE_MS });
    await holderOf(net, key);
    const siege = besiege(b, key);
    await restartAll(net, key);
    expect(await siege.close()).toEqual([]);
    expect([lock.held, lock.signal.aborted]).toEqual([true, false]);
    await lock.release();
    const next = await b.locks.acquire(key);
    expect(next.fencingToken).toBeGreaterThan(lock.fencingToken);
  }, 60_000);

  it('admit no second run of a fire that is running', async () => {
    const net = await startNet(3);
    const [a, b] = [await net.app(), await net.app()];
    const key = freshKey();
    const run = await claimFire(a, key, {}, { leaseMs: LEASE_MS });
    await restartAll(net, key);
    expect(await rejection(claimFire(b, key))).toMatchObject({ code: 'LOCK_BUSY' });
    expect(run.held).toBe(true);
    await run.releaseAfter('done');
  }, 60_000);
});
