import { Logger } from '@nestjs/common';
import { LockConfigurationError, LockStoreError } from '../../../lib/index.js';
import { type LockStore } from '../../../lib/core/store/lock-store.js';
import { LOCK_STORE } from '../../../lib/redis-lock.tokens.js';
import { eventually } from '../../support/waiting/eventually.js';
import { disconnect, ownRedis } from '../../support/redis/own-redis.js';
import { closeAll, closeLater, freshKey, startApp } from '../../support/apps/lock-app.js';
import { type NetApp, type QuorumNet, heldRow, startNet, warmApps } from '../../support/redis/quorum-net.js';
import { startTcpProxy } from '../../support/network/tcp-proxy.js';
import { rejection } from '../../support/waiting/rejection.js';

afterEach(closeAll);

const LEASE_MS = 2_500;

/** Three masters, and two apps that know all of them. */
async function start(): Promise<{ net: QuorumNet; a: NetApp; b: NetApp }> {
  const net = await startNet(3);
  const [a, b] = await warmApps(net, 2);
  return { net, a, b };
}

/** From now on the address of the second node leads to the server of the first, and nothing leads to the third. */
async function misdirect({ servers, admins }: QuorumNet, { app, proxies }: NetApp): Promise<void> {
  proxies[1]!.leadTo(servers[0]!.port);
  proxies[1]!.cutAll();
  disconnect(proxies[2]!);
  // Its subscriber shows that it has connected; the connection for commands is as fast.
  const channel = `lock:wake:${app.get<LockStore>(LOCK_STORE).clientId}`;
  await eventually(async () => (await admins[0]!.pubsub('NUMSUB', channel))[1] === 2);
}

/** Each has its own server again. */
function redirect({ servers }: QuorumNet, { proxies }: NetApp): void {
  proxies[1]!.leadTo(servers[1]!.port);
  proxies[1]!.cutAll();
  proxies[2]!.refuse(false);
}

describe('a node whose address comes to lead to the server of another', () => {
  it('does not renew: its holder has lost the lock before another client is granted it', async () => {
    const { net, a, b } = await start();
    const key = freshKey();
    const lock = await a.locks.acquire(key, { leaseMs: LEASE_MS });
    const { signal } = lock;
    await eventually(async () => (await heldRow(net.admins, key)) === '111');
    await misdirect(net, a);
    const next = await b.locks.acquire(key, { leaseMs: LEASE_MS, waitMs: 20_000 });
    expect([lock.held, signal.aborted]).toEqual([false, true]);
    expect(signal.reason).toMatchObject({ code: 'LOCK_LOST', reason: 'unreachable' });
    expect(next.fencingToken).toBeGreaterThan(lock.fencingToken);
  });

  it('has no vote until its address is right again, while the others continue', async () => {
    const { net, a } = await start();
    await misdirect(net, a);
    a.proxies[2]!.refuse(false);
    const isHeldAs = (row: string) => {
      const key = freshKey();
      const isThere = async () => (await heldRow(net.admins, key)) === row;
      return a.locks.withLock(key, () => eventually(isThere, { timeoutMs: 1_000 }).catch(() => false));
    };
    await eventually(() => isHeldAs('101'), { timeoutMs: 15_000 });
    redirect(net, a);
    await eventually(() => isHeldAs('111'), { timeoutMs: 15_000 });
  });
});

describe('a node that an operator makes a replica while its connections stay', () => {
  it('has no vote although it takes writes, until it is a master again', async () => {
    const { net, a } = await start();
    const [, admin] = net.admins;
    await admin!.config('SET', 'replica-read-only', 'no');
    await admin!.call('REPLICAOF', '127.0.0.1', net.servers[0]!.port);
    disconnect(a.proxies[2]!);
    const refusal = async () => {
      const error = await a.locks.acquire(freshKey(), { waitMs: 0 }).catch((reason: LockStoreError) => reason);
      return error instanceof LockStoreError && /is a replica of .* no vote/.test(error.message) && error;
    };
    await eventually(refusal, { timeoutMs: 15_000 });
    await admin!.call('REPLICAOF', 'NO', 'ONE');
    await eventually(() => a.locks.withLock(freshKey(), { waitMs: 0 }, () => true).catch(() => false));
  });
});

describe('a quorum that is set up wrongly', () => {
  const told = jest.spyOn(Logger.prototype, 'error');
  beforeEach(() => told.mockClear());
  /** What was logged, by how often. */
  const lines = () => told.mock.calls.map(([line]) => String(line));

  async function expectRefused(connection: readonly string[], why: RegExp): Promise<void> {
    const { locks } = await startApp({ connection });
    // At the start, before any lock is asked for.
    await eventually(() => lines().length === 1);
    expect(lines()[0]).toMatch(why);
    for (let i = 0; i < 3; i += 1) {
      const error = await rejection(locks.acquire(freshKey()));
      expect(error).toBeInstanceOf(LockConfigurationError);
      expect(error.message).toMatch(why);
    }
    expect(lines()).toHaveLength(1);
  }

  it('is reported at the start and refused when two addresses lead to one server', async () => {
    const [one, other] = [await ownRedis(), await ownRedis()];
    const proxy = closeLater(await startTcpProxy(one.port));
    const why = new RegExp(
      `independent masters.*127.0.0.1:${one.port} and 127.0.0.1:${proxy.port} are the same server`,
    );
    await expectRefused([one.url, proxy.url, other.url], why);
  });

  it('is reported at the start and refused when a node is a replica of another', async () => {
    const [one, other] = [await ownRedis(), await ownRedis()];
    const replica = await ownRedis(['--replicaof', '127.0.0.1', String(one.port)]);
    const why = new RegExp(`independent masters.*127.0.0.1:${replica.port} is a replica of 127.0.0.1:${one.port}`);
    await expectRefused([one.url, replica.url, other.url], why);
  });
});
