import { type LockEventName } from '../../../../lib/index.js';
import { eventually } from '../../../support/waiting/eventually.js';
import { clientWithSubscriberAt } from '../../../support/redis/connections.js';
import { disconnect } from '../../../support/redis/own-redis.js';
import { type LockApp, closeLater, freshKey } from '../../../support/apps/lock-app.js';
import { type NetApp, type QuorumNet, heldRow, startNet } from '../../../support/redis/quorum-net.js';
import { type TcpProxy, startTcpProxy } from '../../../support/network/tcp-proxy.js';

/** Of five masters the last is down, and the one before it slow. */
export const SLOW_NODE = 3;
const SLOW_MS = 60;

/** Five masters of which one is down; all apps are connected to the others, and slow to one of them. */
export async function startDegraded(): Promise<{ net: QuorumNet; apps: [NetApp, NetApp, NetApp, NetApp] }> {
  const net = await startNet(5);
  const apps = [await net.app(), await net.app(), await net.app(), await net.app()] as [NetApp, NetApp, NetApp, NetApp];
  await net.servers[4]!.kill();
  await Promise.all(apps.map((app) => warmUp(net, app)));
  for (const { proxies } of apps) proxies[SLOW_NODE]!.delayMs = SLOW_MS;
  return { net, apps };
}

/** Until it is connected to all nodes that are up. */
export async function warmUp(net: QuorumNet, { locks }: LockApp): Promise<void> {
  const isWarm = () => {
    const key = freshKey();
    const reached = () => untilRow(net, key, { row: '1111', timeoutMs: 500 });
    return locks.withLock(key, () => reached().then(Boolean, () => false));
  };
  await eventually(isWarm);
}

/** Until all nodes that are up have it. */
export const untilHeld = (net: QuorumNet, key: string): Promise<unknown> => untilRow(net, key, { row: '1111' });

export const untilFree = (net: QuorumNet, key: string): Promise<unknown> => untilRow(net, key, { row: '0000' });

const untilRow = (
  { admins }: QuorumNet,
  key: string,
  { row, timeoutMs = 10_000 }: { row: string; timeoutMs?: number },
) => eventually(async () => (await heldRow(admins.slice(0, 4), key)) === row, { timeoutMs, message: `Not ${row}` });

/** An app whose subscriptions go ways of their own. */
export interface SubscribedApp extends NetApp {
  readonly subscriptions: readonly TcpProxy[];
  /** Leaves it the subscriptions to these nodes only, and waits until the nodes know. */
  hears(...nodes: number[]): Promise<void>;
}

export async function startSubscribed(net: QuorumNet): Promise<SubscribedApp> {
  const ways = () => Promise.all(net.servers.map(async ({ port }) => closeLater(await startTcpProxy(port))));
  const [proxies, subscriptions] = [await ways(), await ways()];
  const connection = proxies.map(({ url }, i) => clientWithSubscriberAt(subscriptions[i]!.url, url));
  const app = { ...(await net.app({ connection })), proxies };
  await warmUp(net, app);
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
export function countEvents({ locks }: LockApp, key: string): Partial<Record<LockEventName, number>> {
  const counts: Partial<Record<LockEventName, number>> = {};
  for (const name of ['acquired', 'waiting', 'released', 'lost', 'timedOut'] as const) {
    locks.events.on(name, (event) => {
      if (event.key === key) counts[name] = (counts[name] ?? 0) + 1;
    });
  }
  return counts;
}
