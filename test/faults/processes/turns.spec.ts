import { type ChildProcess } from 'node:child_process';
import { closeAll, freshKey, openAdmin, startApp } from '../../support/apps/lock-app.js';
import { buildPackage, forkScript } from '../../support/processes/child-app.js';
import { FREEZE_MS, disconnect, ownRedis, proxyTo } from '../../support/redis/own-redis.js';
import { deadlineOf, grantedAt } from '../../support/redis/records.js';
import { topology } from '../../support/topologies/topology.js';
import { eventually } from '../../support/waiting/eventually.js';
import { outcomeOf } from '../../support/waiting/outcome.js';
import { untilWaiting } from '../../support/waiting/waiters.js';

const PATIENT = { waitMs: 25_000 };
/** How long a process may hand the lock on. */
const TURN_MS = 10;

interface Grant {
  readonly token: number;
  readonly caller: number;
  readonly local: boolean;
  /** On the monotonic clock of its process. */
  readonly at: number;
}

interface Message {
  readonly hangs?: number;
  readonly stops?: number;
  readonly grants?: readonly Grant[];
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

/** All grants, in the order of their tokens, with the numbers of their processes and turns. */
function inOrder(all: readonly (readonly Grant[])[]) {
  const grants = all.flatMap((ofOne, nr) => ofOne.map((grant) => ({ ...grant, process: nr, turn: 0 })));
  grants.sort((one, two) => one.token - two.token);
  let turn = 0;
  for (const grant of grants) grant.turn = grant.local ? turn : ++turn;
  return grants;
}

describe('processes with many callers of one key', () => {
  afterEach(closeAll);

  it('take turns: none of them gets more than its share, and none waits for long', async () => {
    const [PROCESSES, CALLERS] = [4, 8];
    const [key, admin] = [freshKey(), openAdmin()];
    const processes = await Promise.all(
      Array.from({ length: PROCESSES }, () => startCallers(key, { callers: CALLERS })),
    );
    for (const { child } of processes) child.send('begin');
    const tokenOf = async (): Promise<string> => JSON.stringify(await admin.hgetall(`lock:${key}`));
    // Until the lock has been seen in many states, between which there were many grants.
    const seen = new Set<string>();
    await eventually(async () => seen.add(await tokenOf()).size > 100, { timeoutMs: 20_000, intervalMs: 5 });
    for (const { child } of processes) child.send('end');
    await eventually(() => processes.every(({ said }) => said.grants), { timeoutMs: 20_000 });
    expect(processes.map(({ said }) => said.failures)).toEqual(processes.map(() => []));
    const all = inOrder(processes.map(({ said }) => said.grants!));
    expect(new Set(all.map(({ token }) => token)).size).toBe(all.length);

    // From when all of them wait until the first of them ends.
    const firstOf = (nr: number): number => all.findIndex((grant) => grant.process === nr);
    const lastOf = (nr: number): number => all.findLastIndex((grant) => grant.process === nr);
    const numbers = processes.map((_, nr) => nr);
    const common = all.slice(
      Math.max(...numbers.map(firstOf)),
      Math.min(...numbers.map(lastOf)) - 2 * PROCESSES * CALLERS,
    );
    expect(common.length).toBeGreaterThan(10 * PROCESSES * CALLERS);
    for (const nr of numbers) {
      const mine = common.filter((grant) => grant.process === nr);
      expect(mine.length).toBeLessThanOrEqual((2 * common.length) / PROCESSES);
      // Each other process has its turn in between, or a second one if this process was not heard in time.
      const turns = [...new Set(mine.map(({ turn }) => turn))];
      for (const [i, turn] of turns.slice(1).entries()) expect(turn - turns[i]!).toBeLessThanOrEqual(2 * PROCESSES);
      for (let caller = 0; caller < CALLERS; caller += 1) {
        const places = mine.flatMap((grant, place) => (grant.caller === caller ? [place] : []));
        for (const [i, place] of places.slice(1).entries()) expect(place - places[i]!).toBeLessThanOrEqual(2 * CALLERS);
      }
    }
    expectTurns(common);
  }, 60_000);

  /** That each turn has one process, tokens in a row, and an end. */
  function expectTurns(all: ReturnType<typeof inOrder>): void {
    let [first, late] = [all[0]!, 0];
    for (const [i, grant] of all.slice(1).entries()) {
      const last = all[i]!;
      if (grant.local) expect([grant.process, grant.token]).toEqual([last.process, last.token + 1]);
      else first = grant;
      if (grant.local && first.process === grant.process && grant.at - first.at > TURN_MS) late += 1;
    }
    expect(all.some(({ local }) => local)).toBe(true);
    // The machine may stall just after the lock was handed on.
    expect(late).toBeLessThanOrEqual(all.length / 50);
  }
});

describe('a process that ends, or stops, in its turn', () => {
  afterEach(closeAll);

  const SHORT = { leaseMs: 1_500, waitMs: 60_000 };

  it('keeps the others waiting for a lease at most when it is killed', async () => {
    const [{ locks }, admin, key] = [await startApp(), openAdmin(), freshKey()];
    const { child, said } = await startCallers(key, { callers: 6, rounds: 1, lock: SHORT, hangAt: 3 });
    child.send('begin');
    await eventually(() => said.hangs);
    const waiting = locks.acquire(key, PATIENT);
    await untilWaiting({ locks }, key, 2);
    child.kill('SIGKILL');
    await eventually(() => child.signalCode);
    const deadline = await deadlineOf([admin], key);
    const lock = await waiting;
    // A call of the dead process may be before it in the queue, for up to its waiter lease.
    expect(grantedAt(lock)).toBeLessThanOrEqual(deadline + SHORT.leaseMs + FREEZE_MS);
    expect(lock.fencingToken).toBeGreaterThan(said.hangs!);
    expect(await locks.inspect(key)).toMatchObject({ holders: [{ fencingToken: lock.fencingToken }] });
    await lock.release();
  }, 60_000);

  it('is told of the loss when it goes on, and hands nothing on that it has lost', async () => {
    const [app, admin, key] = [await startApp(), openAdmin(), freshKey()];
    const { child, said } = await startCallers(key, { callers: 6, rounds: 1, lock: SHORT, stopAt: 3 });
    child.send('begin');
    await eventually(() => said.stops);
    const deadline = await deadlineOf([admin], key);
    const lock = await app.locks.acquire(key, PATIENT);
    expect(grantedAt(lock)).toBeGreaterThanOrEqual(deadline);
    // If the machine stalled, one of its calls was in the queue already, and was granted the lock in vain.
    expect(grantedAt(lock)).toBeLessThanOrEqual(deadline + 2 * SHORT.leaseMs + FREEZE_MS);
    child.kill('SIGCONT');
    // One of its calls waits in Redis again, and the others behind that one.
    await untilWaiting(app, key, 1);
    expect([lock.held, said.grants]).toEqual([true, undefined]);
    await lock.release();
    await eventually(() => said.grants);
    expect(said.failures).toEqual(['LOCK_LOST']);
    const tokens = said.grants!.map(({ token }) => token);
    expect(tokens.length).toBe(6);
    expect(tokens.filter((token) => token < lock.fencingToken)).toEqual(tokens.slice(0, 3));
    expect(said.grants![3]).toMatchObject({ local: false });
  }, 60_000);
});

describe('a process that is cut off from Redis in its turn', () => {
  afterEach(closeAll);

  it('is told of the loss, hands nothing on, and asks again when Redis is back', async () => {
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
