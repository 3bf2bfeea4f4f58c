import { closeAll, freshKey, openAdmin, startApp } from '../../support/apps/lock-app.js';
import { type ChildProcess } from 'node:child_process';
import { disconnect, ownRedis, proxyTo } from '../../support/redis/own-redis.js';
import { deadlineOf, grantedAt, hashOf, queued } from '../../support/redis/records.js';
import { eventually } from '../../support/waiting/eventually.js';
import { outcomeOf } from '../../support/waiting/outcome.js';
import { untilWaiting } from '../../support/waiting/waiters.js';
import { buildPackage, forkScript, startChildApp } from '../../support/processes/child-app.js';
import { topology } from '../../support/topologies/topology.js';
import { evalOf, lockCalls, plainWriter } from '../../support/redis/lock-commands.js';
import { rejection } from '../../support/waiting/rejection.js';

afterEach(closeAll);

const PATIENT = { waitMs: 25_000 };

interface Message {
  readonly hangs?: number;
  readonly stops?: number;
  readonly grants?: readonly { readonly token: number; readonly local: boolean }[];
  readonly failures?: readonly string[];
}

/** A process with several callers of one lock (turns-process.mjs). */
async function startCallers(key: string, terms: object): Promise<{ child: ChildProcess; said: Message }> {
  await buildPackage();
  const options = { connection: topology.connection };
  const { child } = forkScript('turns-process.mjs', JSON.stringify({ options, key, lock: PATIENT, ...terms }));
  const said: Message & { isReady?: boolean } = {};
  child.on('message', (message) => void Object.assign(said, message));
  await eventually(() => said.isReady, { timeoutMs: 20_000 });
  return { child, said };
}

describe('a process that ends, or stops, in its turn', () => {
  const SHORT = { leaseMs: 1_500, waitMs: 60_000 };

  it('does not keep the others waiting when it is killed', async () => {
    const [{ locks }, key] = [await startApp(), freshKey()];
    const { child, said } = await startCallers(key, { callers: 6, lock: SHORT, hangAt: 3 });
    child.send('begin');
    await eventually(() => said.hangs);
    const waiting = locks.acquire(key, PATIENT);
    await untilWaiting({ locks }, key, 2);
    child.kill('SIGKILL');
    await eventually(() => child.signalCode);
    const lock = await waiting;
    expect(lock.fencingToken).toBeGreaterThan(said.hangs!);
    expect(await locks.inspect(key)).toMatchObject({ holders: [{ fencingToken: lock.fencingToken }] });
    await lock.release();
  }, 60_000);

  it('is notified of the loss when it continues, and hands nothing on that it has lost', async () => {
    const [app, admin, key] = [await startApp(), openAdmin(), freshKey()];
    const { child, said } = await startCallers(key, { callers: 6, lock: SHORT, stopAt: 3 });
    child.send('begin');
    await eventually(() => said.stops);
    const deadline = await deadlineOf([admin], key);
    const lock = await app.locks.acquire(key, PATIENT);
    expect(grantedAt(lock)).toBeGreaterThanOrEqual(deadline);
    child.kill('SIGCONT');
    // One of its calls waits in Redis again, and the others behind that one.
    await untilWaiting(app, key, 1);
    expect([lock.held, said.grants]).toEqual([true, undefined]);
    await lock.release();
    await eventually(() => said.grants);
    // Calls of its grant that had handed the lock on without a proof are notified as well.
    expect(new Set(said.failures)).toEqual(new Set(['LOCK_LOST']));
    expect(said.failures!.length).toBeLessThanOrEqual(3);
    const tokens = said.grants!.map(({ token }) => token);
    expect(tokens.length).toBe(6);
    expect(tokens.filter((token) => token < lock.fencingToken)).toEqual(tokens.slice(0, 3));
    expect(said.grants![3]).toMatchObject({ local: false });
  }, 60_000);
});

describe('a process that is cut off from Redis in its turn', () => {
  it('is notified of the loss, hands nothing on, and asks again when Redis is back', async () => {
    const { url, admin } = await ownRedis();
    const proxy = await proxyTo(url);
    const [a, b] = [await startApp({ connection: proxy.url }), await startApp({ connection: url })];
    const [key, short] = [freshKey(), { leaseMs: 1_500, waitMs: 60_000 }];
    const local: boolean[] = [];
    a.locks.events.on('acquired', (event) => void local.push(event.local));
    const held = await eventually(async () => {
      const first = await a.locks.acquire(key, short);
      const next = a.locks.acquire(key, short);
      await first.release();
      const second = await next;
      // A stalled machine may need another try.
      if (local.at(-1)) return second;
      await second.release();
      return null;
    });
    disconnect(proxy);
    const { signal } = held;
    const others = [0, 1].map(() => a.locks.acquire(key, short));
    const outcomes = others.map(outcomeOf);
    const deadline = await deadlineOf([admin], key);
    const lock = await b.locks.acquire(key, PATIENT);
    expect(grantedAt(lock)).toBeGreaterThanOrEqual(deadline);
    expect(signal.aborted).toBe(true);
    expect(signal.reason).toMatchObject({ code: 'LOCK_LOST', reason: 'unreachable' });
    void held.release();
    proxy.refuse(false);
    await untilWaiting(b, key, 1);
    expect([lock.held, outcomes]).toEqual([true, [{}, {}]]);
    await lock.release();
    for (const other of others) {
      const { fencingToken } = await other;
      expect(fencingToken).toBeGreaterThan(lock.fencingToken);
      await (await other).release();
    }
  }, 60_000);
});

describe('a waiter that is stopped', () => {
  it('lets the others pass, and waits again when it continues', async () => {
    const [a, b, stopped] = [await startApp(), await startApp(), await startChildApp()];
    const key = freshKey();
    const held = await a.locks.acquire(key);
    const first = stopped.acquire(key, { waitMs: 60_000 });
    await untilWaiting(a, key);
    const second = b.locks.acquire(key, { waitMs: 60_000 });
    await untilWaiting(a, key, 2);
    stopped.process.kill('SIGSTOP');
    await held.release();
    const next = await second;
    stopped.process.kill('SIGCONT');
    // What was pushed to it is over: it asks, and learns that another holds the lock.
    await untilWaiting(a, key);
    expect([next.held, await stopped.isHeld()]).toEqual([true, false]);
    expect((await a.locks.inspect(key)).holders).toMatchObject([{ fencingToken: next.fencingToken }]);
    await next.release();
    expect(await first).toBeGreaterThan(next.fencingToken);
    expect(await stopped.isHeld()).toBe(true);
    await stopped.release();
    await eventually(async () => !(await a.locks.isLocked(key)));
  }, 60_000);
});

type Admin = ReturnType<typeof openAdmin>;

/** Queues calls of a dead process: it sends nothing, and is not subscribed. */
async function addDead(admin: Admin, key: string, count: number, waiterLeaseMs: number, fair = true): Promise<void> {
  const pipeline = admin.pipeline();
  for (let i = 0; i < count; i++) {
    const asked = { ...plainWriter(key, `gone.${String(i).padStart(8, '0')}`), waiterLeaseMs, fair, holder: 'gone:1' };
    pipeline.eval(...evalOf(lockCalls.acquire(asked, 1_000, 0)));
  }
  const replies = await pipeline.exec();
  expect(replies!.map(([, reply]) => (reply as string[])[0])).toEqual(Array.from({ length: count }, () => 'busy'));
}

describe('waiters of a process that died', () => {
  it.each([
    [100, true],
    [1_000, true],
    [1_000, false],
  ])('%d of them do not keep a free lock from the waiter behind them (fair: %j)', async (count, fair) => {
    const [a, b, admin] = [await startApp(), await startApp(), openAdmin()];
    const key = freshKey();
    const held = await a.locks.acquire(key);
    // Longer than the test: only their silence shows that they are dead.
    await addDead(admin, key, count, 60_000, fair);
    const waiting = b.locks.acquire(key, { waitMs: 25_000, fair });
    await eventually(async () => (await queued(admin, key)) === count + 1);
    await held.release();
    expect((await waiting).held).toBe(true);
  });

  it('leave the queue behind a live waiter, some with each command', async () => {
    const [a, b, admin] = [await startApp(), await startApp(), openAdmin()];
    const key = freshKey();
    const held = await a.locks.acquire(key);
    const waiting = rejection(b.locks.acquire(key, { waitMs: 55_000 }));
    await eventually(async () => (await queued(admin, key)) === 1);
    await addDead(admin, key, 1_200, 1_000);
    // The one that lives asks every two seconds.
    await eventually(async () => (await queued(admin, key)) === 1, { timeoutMs: 40_000 });
    await b.close();
    await waiting;
    // The garbage collection releases an unreferenced handle.
    expect(held.held).toBe(true);
    await held.release();
  }, 60_000);
});

describe('a waiter that cancels', () => {
  it('wakes the one behind it, which learns when the lease of a dead holder ends', async () => {
    const [a, b, admin] = [await startApp(), await startApp(), openAdmin()];
    const key = freshKey();
    await a.locks.acquire(key, { leaseMs: 6_000, renew: false });
    const deadline = await deadlineOf([admin], key);
    const patience = new AbortController();
    const first = rejection(a.locks.acquire(key, { signal: patience.signal, waitMs: 25_000 }));
    await eventually(async () => (await queued(admin, key)) === 1);
    const heard: string[] = [];
    const listener = openAdmin();
    await listener.psubscribe('lock:wake:*');
    listener.on('pmessage', (_pattern: string, _channel: string, message: string) =>
      heard.push(message.split(' ')[0]!),
    );
    const second = b.locks.acquire(key, { waitMs: 25_000 });
    await eventually(async () => (await queued(admin, key)) === 2);
    patience.abort();
    await first;
    await eventually(() => heard.includes('wake'));
    expect(grantedAt(await second)).toBeGreaterThanOrEqual(deadline);
  });
});

describe('the record of a lock', () => {
  it.each([
    ['a lock', {}],
    ['a lock for reading', { mode: 'read' as const }],
    ['a lock that stays taken for a while', { holdAtLeastMs: 1_000 }],
  ])('is kept for `keepMs` after the release, whatever the lease was: %s', async (_name, options) => {
    const [{ locks }, admin] = [await startApp({ keepMs: 60_000 }), openAdmin()];
    const key = freshKey();
    const lock = await locks.acquire(key, { ...options, leaseMs: 24 * 3_600_000 });
    expect(await admin.pttl(`lock:${key}`)).toBeGreaterThan(23 * 3_600_000);
    await lock.release();
    // And a half, since not each grant sets the time to live; a lock that stays taken ends a second later.
    expect(await admin.pttl(`lock:${key}`)).toBeLessThanOrEqual(91_000);
    expect(Object.keys(await hashOf(admin, key))).toContain('token');
  });

  it('is not kept for the long lease of a holder that has left while others hold the lock', async () => {
    const [{ locks }, admin] = [await startApp({ keepMs: 60_000 }), openAdmin()];
    const key = freshKey();
    const long = await locks.acquire(key, { mode: 'read', leaseMs: 24 * 3_600_000 });
    const short = await locks.acquire(key, { mode: 'read', leaseMs: 120_000 });
    await long.release();
    expect(await admin.pttl(`lock:${key}`)).toBeLessThanOrEqual(120_000 + 90_000);
    expect(short.held).toBe(true);
  });
});

const LEASE_MS = 2_000;

/** Starts an instance that leads and works, and one that waits for its turn. */
async function startTwo(leaseMs: number) {
  const options = { key: freshKey('leader'), leaseMs, everyMs: 200 };
  const first = await startLeader(options);
  await first.next('worked');
  const second = await startLeader(options);
  await untilWaiting(await startApp(), options.key);
  return [first, second] as const;
}

/** What an instance reported: that it was elected, has worked as the leader, or was demoted. */
interface LeaderReport {
  readonly kind: 'ready' | 'elected' | 'worked' | 'demoted';
  readonly fencingToken: number;
  readonly reason?: string;
}

/** Starts an instance that campaigns, and that works every `everyMs` milliseconds while it leads. */
async function startLeader(options: { key: string; leaseMs: number; everyMs: number }) {
  await buildPackage();
  const module = { connection: topology.connection, drainMs: 500 };
  const { child } = forkScript('leader-process.mjs', JSON.stringify({ module, ...options }));
  const reports: LeaderReport[] = [];
  child.on('message', (report: LeaderReport) => reports.push(report));
  await eventually(() => reports.some(({ kind }) => kind === 'ready'), { timeoutMs: 30_000 });
  return {
    process: child,
    reports,
    /** Resolves with the next report of this kind from now on. */
    next: (kind: LeaderReport['kind']) => {
      const from = reports.length;
      return eventually(() => reports.slice(from).find((report) => report.kind === kind), { timeoutMs: 30_000 });
    },
  };
}

describe('a leader in its own process', () => {
  it('is followed by another when it is killed', async () => {
    const [first, second] = await startTwo(LEASE_MS);
    const { fencingToken } = first.reports.at(-1)!;
    const elected = second.next('elected');
    first.process.kill('SIGKILL');
    expect((await elected).fencingToken).toBeGreaterThan(fencingToken);
    expect((await second.next('worked')).fencingToken).toBe((await elected).fencingToken);
  }, 60_000);

  it('learns that its term is over before it works again, when it was stopped for longer than its lease', async () => {
    const [first, second] = await startTwo(LEASE_MS);
    // It has just worked, and has nothing to do at this moment.
    const { fencingToken } = await first.next('worked');
    first.process.kill('SIGSTOP');
    const elected = await second.next('elected');
    expect(elected.fencingToken).toBeGreaterThan(fencingToken);
    await second.next('worked');
    const before = first.reports.length;
    first.process.kill('SIGCONT');
    await eventually(() => first.reports.length > before);
    expect(first.reports[before]).toMatchObject({ kind: 'demoted', fencingToken });
    for (let i = 0; i < 5; i += 1) await second.next('worked');
    expect(first.reports.slice(before)).toHaveLength(1);
  }, 60_000);

  it('hands the lead on at SIGTERM, long before its lease would end', async () => {
    const [first, second] = await startTwo(600_000);
    const elected = second.next('elected');
    first.process.kill('SIGTERM');
    const { fencingToken } = await elected;
    expect(first.reports.at(-1)).toMatchObject({ kind: 'demoted', reason: 'shutdown' });
    expect(fencingToken).toBeGreaterThan(first.reports.at(-1)!.fencingToken);
  }, 60_000);
});
