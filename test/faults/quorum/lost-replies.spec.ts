import { LockError, type LockEventName } from '../../../lib/index.js';
import { eventually } from '../../support/waiting/eventually.js';
import { isCommand } from '../../support/redis/own-redis.js';
import { type LockApp, closeAll, freshKey } from '../../support/apps/lock-app.js';
import { type NetApp, type QuorumNet, heldRow, holdsOn, startNet, warmApps } from '../../support/redis/quorum-net.js';
import { hashOf, setToken } from '../../support/redis/records.js';
import { rejection } from '../../support/waiting/rejection.js';
import { expectNothingAlive } from '../../support/waiting/waiters.js';

type Command = 'acquire' | 'writeBack' | 'renew' | 'release' | 'downgrade';

/** Of three, the first of which has the greatest token: a write-back goes to the others. */
const WHERE: [string, readonly number[]][] = [
  ['one node', [1]],
  ['a majority', [1, 2]],
];

const LEASE_MS = 5_000;

/** How often each event came. */
function countEvents({ locks }: LockApp): Partial<Record<LockEventName, number>> {
  const counts: Partial<Record<LockEventName, number>> = {};
  for (const name of ['acquired', 'released', 'lost'] as const) {
    locks.events.on(name, () => (counts[name] = (counts[name] ?? 0) + 1));
  }
  return counts;
}

let net: QuorumNet;
beforeAll(async () => {
  net = await startNet(3);
});
afterAll(closeAll);

async function start() {
  const [a, b] = await warmApps(net, 2);
  const key = freshKey();
  await setToken(net.admins[0]!, key, String((Date.now() + 3_600_000) * 1_000));
  // It is also the first to answer, so that its token counts.
  for (const proxy of a.proxies.slice(1)) proxy.delayMs = 20;
  return { a, b, key, events: countEvents(a) };
}

const lose = ({ proxies }: NetApp, nodes: readonly number[], command: Command): void => {
  for (const node of nodes) proxies[node]!.dropNextReply(isCommand(command));
};

/** Loses the reply and then the connection, so that the command cannot be sent again. */
function loseForGood({ proxies }: NetApp, nodes: readonly number[], command: Command): void {
  const matches = isCommand(command);
  for (const node of nodes) {
    proxies[node]!.dropNextReply((text) => {
      if (matches(text)) proxies[node]!.refuse(true);
      return matches(text);
    });
  }
}

const reopen = ({ proxies }: NetApp): void => proxies.forEach((proxy) => proxy.refuse(false));

async function expectLost({ proxies }: NetApp, nodes: readonly number[], command: Command): Promise<void> {
  // The node with the greatest token gets no write-back.
  const expected = proxies.map((_, i) => (nodes.includes(i) && !(command === 'writeBack' && i === 0) ? 1 : 0));
  await eventually(() => String(proxies.map(({ droppedReplies }) => droppedReplies)) === String(expected), {
    message: `The replies of ${command} were not lost on ${String(nodes)}`,
  });
}

/** Asserts that all nodes have one hold of one attempt, with the token of the holder. */
async function expectOneHold({ admins }: QuorumNet, key: string, token: number): Promise<void> {
  const tokens = async () => {
    const hashes = await Promise.all(admins.map((admin) => hashOf(admin, key)));
    return hashes.map((hash) =>
      Object.keys(hash).flatMap((field) => (field.startsWith('hold:') ? [Number(hash[field]!.split(' ')[3])] : [])),
    );
  };
  const expected = JSON.stringify(admins.map(() => [token]));
  await eventually(async () => JSON.stringify(await tokens()) === expected, { message: `Not ${expected}` });
  expect(new Set((await holdsOn(admins, key)).flat()).size).toBe(1);
}

/** Asserts that the lock is free on every node well before the lease ends, and that nothing of it is alive. */
async function expectNothingLeft({ admins }: QuorumNet, apps: readonly LockApp[], key: string): Promise<void> {
  await eventually(async () => (await heldRow(admins, key)) === '000', { timeoutMs: 20_000 });
  await expectNothingAlive(apps);
}

describe.each(WHERE)('a lost reply from %s', (_name, nodes) => {
  it.each(['acquire', 'writeBack'] as const)('to %s: the lock is granted once, with one token', async (command) => {
    const { a, b, key, events } = await start();
    lose(a, nodes, command);
    const lock = await a.locks.acquire(key, { leaseMs: 30_000 });
    await expectLost(a, nodes, command);
    await expectOneHold(net, key, lock.fencingToken);
    expect(await b.locks.tryAcquire(key)).toBeNull();
    await lock.release();
    await expectNothingLeft(net, [a], key);
    expect(events).toEqual({ acquired: 1, released: 1 });
    const next = await b.locks.acquire(key);
    expect(next.fencingToken).toBeGreaterThan(lock.fencingToken);
  });
});

describe('lost replies from a majority, and then no connection to it', () => {
  it.each(['acquire', 'writeBack'] as const)(
    'to %s: the lock is not granted, and the attempt is given back when they are back',
    async (command) => {
      const { a, b, key, events } = await start();
      loseForGood(a, [1, 2], command);
      const error = await rejection<LockError>(a.locks.acquire(key, { waitMs: 500, leaseMs: LEASE_MS }));
      expect(error.code).toBe('LOCK_STORE');
      expect(events).toEqual({});
      reopen(a);
      await expectNothingLeft(net, [a], key);
      await (await b.locks.acquire(key, { waitMs: 0 })).release();
    },
  );

  it('to a renewal: the lock is kept when they are back in time, and lost when not', async () => {
    const { a, b, key, events } = await start();
    const lock = await a.locks.acquire(key, { leaseMs: LEASE_MS });
    const { signal } = lock;
    loseForGood(a, [1, 2], 'renew');
    await expectLost(a, [1, 2], 'renew');
    reopen(a);
    await eventually(() => lock.remainingMs > (LEASE_MS * 2) / 3);
    expect(signal.aborted).toBe(false);
    a.reaches(0);
    const next = await b.locks.acquire(key, { waitMs: 3 * LEASE_MS });
    expect(signal.reason).toMatchObject({ code: 'LOCK_LOST', reason: 'unreachable' });
    expect(next.fencingToken).toBeGreaterThan(lock.fencingToken);
    expect(events).toEqual({ acquired: 1, lost: 1 });
  });

  it('to a release: the caller does not wait, and the lock is released when they are back', async () => {
    const { a, b, key, events } = await start();
    // The caller would wait for longer than the test.
    const lock = await a.locks.acquire(key, { leaseMs: 600_000 });
    await expectOneHold(net, key, lock.fencingToken);
    loseForGood(a, [1, 2], 'release');
    await lock.release();
    await (await b.locks.acquire(key, { waitMs: 20_000 })).release();
    reopen(a);
    await expectNothingLeft(net, [a, b], key);
    expect(events).toEqual({ acquired: 1, released: 1 });
    expect(lock.signal.aborted).toBe(false);
  });
});
