import { LockError, type LockEventName } from '../../../lib/index.js';
import { claimFire } from '../../support/apps/claim-fire.js';
import { eventually } from '../../support/waiting/eventually.js';
import { type LockApp, closeAll, closeLater, freshKey } from '../../support/apps/lock-app.js';
import { type NetApp, type QuorumNet, heldRow, startNet, warmUp } from '../../support/redis/quorum-net.js';
import { untilQuick } from '../../support/waiting/waiters.js';
import { clientWithSubscriberAt } from '../../support/redis/connections.js';
import { disconnect } from '../../support/redis/own-redis.js';
import { type TcpProxy, startTcpProxy } from '../../support/network/tcp-proxy.js';

/** Of five masters the last is down, and the one before it slow. */
const SLOW_NODE = 3;
const SLOW_MS = 60;

/** Five masters of which one is down; all apps are connected to the others, and slow to one of them. */
async function startDegraded(): Promise<{ net: QuorumNet; apps: [NetApp, NetApp, NetApp, NetApp] }> {
  const net = await startNet(5);
  const apps = [await net.app(), await net.app(), await net.app(), await net.app()] as [NetApp, NetApp, NetApp, NetApp];
  await net.servers[4]!.kill();
  await Promise.all(apps.map((app) => warmUp(net.admins.slice(0, 4), app)));
  for (const { proxies } of apps) proxies[SLOW_NODE]!.delayMs = SLOW_MS;
  return { net, apps };
}

/** Until all nodes that are up have it. */
const untilHeld = ({ admins }: QuorumNet, key: string, timeoutMs = 10_000): Promise<unknown> =>
  eventually(async () => (await heldRow(admins.slice(0, 4), key)) === '1111', { timeoutMs });

/** An app whose subscriptions have separate proxies. */
interface SubscribedApp extends NetApp {
  readonly subscriptions: readonly TcpProxy[];
  /** Leaves it the subscriptions to these nodes only, and waits until the nodes know. */
  hears(...nodes: number[]): Promise<void>;
}

async function startSubscribed(net: QuorumNet): Promise<SubscribedApp> {
  const ways = () => Promise.all(net.servers.map(async ({ port }) => closeLater(await startTcpProxy(port))));
  const [proxies, subscriptions] = [await ways(), await ways()];
  const connection = proxies.map(({ url }, i) => clientWithSubscriberAt(subscriptions[i]!.url, url));
  const app = { ...(await net.app({ connection })), proxies };
  await warmUp(net.admins.slice(0, 4), app);
  proxies[SLOW_NODE]!.delayMs = SLOW_MS;
  const { clientId } = (app.locker as unknown as { store: { clientId: string } }).store;
  const isHeard = async (node: number): Promise<boolean> => {
    const heard = await net.admins[node]!.pubsub('NUMSUB', `lock:wake:${clientId}`).catch(() => ['', 0]);
    return heard[1] === 1;
  };
  const hears = async (...nodes: number[]): Promise<void> => {
    for (const [i, way] of subscriptions.entries()) {
      if (nodes.includes(i)) way.refuse(false);
      else disconnect(way);
    }
    for (const node of [0, 1, 2, SLOW_NODE]) {
      await eventually(async () => (await isHeard(node)) === nodes.includes(node), { message: `Node ${node}` });
    }
  };
  return { ...app, subscriptions, hears };
}

/** How often each of the events of a lock came. */
function countEvents({ locks }: LockApp, key: string): Partial<Record<LockEventName, number>> {
  const counts: Partial<Record<LockEventName, number>> = {};
  for (const name of ['acquired', 'waiting', 'released', 'lost', 'timedOut'] as const) {
    locks.events.on(name, (event) => {
      if (event.key === key) counts[name] = (counts[name] ?? 0) + 1;
    });
  }
  return counts;
}

const FIRES = 10;
const SOON_MS = 1_000;
/** Votes that are split cost several rounds, and a loser has to learn that the fire was claimed. */
const PATIENT = { waitMs: 10_000 };

/** Has all apps claim the same fires, one after the other; gives how often each was run. */
async function runFires(apps: readonly LockApp[], key: string, fires: number): Promise<number[]> {
  const runs = Array.from({ length: fires }, () => 0);
  const run = async (app: LockApp, fire: number) => {
    try {
      const lock = await claimFire(app, key, { ms: 1_000 * (fire + 1) }, PATIENT);
      runs[fire]! += 1;
      await lock.releaseAfter('done');
    } catch (error) {
      if (!['LOCK_CLAIMED', 'LOCK_BUSY'].includes((error as LockError).code)) throw error;
    }
  };
  for (let fire = 0; fire < fires; fire += 1) {
    await Promise.all(apps.map((app) => run(app, fire)));
  }
  return runs;
}

let net: QuorumNet;
let apps: [NetApp, NetApp, NetApp, NetApp];
beforeAll(async () => {
  ({ net, apps } = await startDegraded());
});
afterAll(closeAll);

describe('jobs on a quorum with one node down and one slow', () => {
  it('run once per fire when each app reaches another majority', async () => {
    const key = freshKey();
    for (const [i, app] of apps.entries()) app.reaches(...[0, 1, 2, 3].filter((node) => node !== i));
    const runs = await runFires(apps, key, FIRES);
    for (const app of apps) app.reaches(0, 1, 2, 3);
    await Promise.all(apps.map((app) => warmUp(net.admins.slice(0, 4), app)));
    expect(runs).toEqual(Array.from({ length: FIRES }, () => 1));
  }, 60_000);
});

describe('messages on a quorum with one node down and one slow', () => {
  it('notify a holder of a revocation, whichever node it hears', async () => {
    const holder = await startSubscribed(net);
    for (const node of [0, 1, 2, SLOW_NODE]) {
      await holder.hears(node);
      const key = freshKey();
      const events = countEvents(holder, key);
      const lock = await holder.locks.acquire(key, { leaseMs: 30_000 });
      const { signal } = lock;
      await untilHeld(net, key);
      expect(await apps[0].locks.forceRelease(key)).toBe(true);
      // Long before the renewal.
      await eventually(() => signal.aborted, { timeoutMs: 5_000, message: `Not heard of node ${node}` });
      expect(signal.reason).toMatchObject({ reason: 'revoked' });
      expect(events).toEqual({ acquired: 1, lost: 1 });
      expect(lock.held).toBe(false);
    }
  });

  it('are replaced by the next renewal when a holder hears none', async () => {
    const holder = await startSubscribed(net);
    await holder.hears();
    const key = freshKey();
    const events = countEvents(holder, key);
    const lock = await holder.locks.acquire(key, { leaseMs: 3_000 });
    const { signal } = lock;
    await untilHeld(net, key);
    expect(await apps[0].locks.forceRelease(key)).toBe(true);
    // Not the end of the lease, which has another reason.
    await eventually(() => signal.aborted);
    expect(signal.reason).toMatchObject({ reason: 'revoked' });
    expect(events).toEqual({ acquired: 1, lost: 1 });
    expect(lock.held).toBe(false);
  });

  it('wake a waiter that hears only one node, long before its poll', async () => {
    const waiter = await startSubscribed(net);
    for (const node of [0, 1, 2, SLOW_NODE]) {
      await waiter.hears(node);
      await untilQuick(SOON_MS, async () => {
        const key = freshKey();
        const events = countEvents(waiter, key);
        const held = await apps[0].locks.acquire(key, { leaseMs: 60_000 });
        await untilHeld(net, key);
        const waiting = waiter.locks.acquire(key, { leaseMs: 60_000 });
        await eventually(() => events.waiting === 1);
        return async () => {
          await held.release();
          await (await waiting).release();
          expect(events).toEqual({ waiting: 1, acquired: 1, released: 1 });
        };
      });
    }
  });
});
