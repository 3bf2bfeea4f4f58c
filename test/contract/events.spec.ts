import 'reflect-metadata';
import { hostname } from 'node:os';
import { Logger } from '@nestjs/common';
import { Locked, type LockEventMap, type LockEventName, ReadLocked } from '../../lib/index.js';
import { EVENT_NAMES } from '../support/apps/event-names.js';
import { eventually } from '../support/waiting/eventually.js';
import { disconnect, proxyTo } from '../support/redis/own-redis.js';
import { type LockApp, closeAll, freshKey, startApp } from '../support/apps/lock-app.js';
import { IN_ONE_SLOT, itOnSingle, topology } from '../support/topologies/topology.js';
import { grantedAt } from '../support/redis/records.js';
import { gate } from '../support/waiting/gate.js';

const MONTH_MS = 30 * 24 * 3_600_000;
const HOLDER = `${hostname().slice(0, 40)}:${process.pid}`;

class Work {
  @Locked('work:<0>')
  async write(_key: string, until: Promise<unknown> = Promise.resolve()): Promise<unknown> {
    return until;
  }

  @ReadLocked('work:<0>')
  async read(_key: string): Promise<void> {}

  @Locked('work:<0>', { ifBusy: 'skip' })
  async skip(_key: string): Promise<void> {}

  @Locked('work:<0>', { ifBusy: (key) => key })
  async orElse(_key: string): Promise<unknown> {
    return 'ran';
  }

  @Locked('work:<0>', { onUnavailable: 'skip', waitMs: 0 })
  async ifThere(_key: string): Promise<void> {}

  @Locked('work:<0>', { oncePer: MONTH_MS, spreadMs: 0 })
  async job(_key: string): Promise<void> {}
}

type Told = { [Name in LockEventName]: LockEventMap[Name][] };

/** All events that an app emits from now on. */
function record({ locks }: LockApp): Told {
  const told = Object.fromEntries(EVENT_NAMES.map((name) => [name, []])) as unknown as Told;
  for (const name of EVENT_NAMES) locks.events.on(name, (event) => told[name].push(event as never));
  return told;
}

async function start(connection?: string) {
  const app = await startApp(connection ? { connection } : IN_ONE_SLOT, { providers: [Work] });
  return { ...app, work: app.app.get(Work), told: record(app) };
}

/** How often each event was emitted. */
const counts = (told: Told) =>
  Object.fromEntries(EVENT_NAMES.filter((name) => told[name].length > 0).map((name) => [name, told[name].length]));

describe('the events of a lock', () => {
  afterEach(closeAll);

  it('emits acquired and released for a method, a reader and the service', async () => {
    const { work, told, locks } = await start();
    const key = freshKey();
    await work.write(key);
    await work.read(key);
    const lock = await locks.acquire([key, `${key}-2`]);
    await lock.release();
    expect(counts(told)).toEqual({ acquired: 3, released: 3 });
    const [written, read, byHand] = told.acquired;
    const common = { key: `work:${key}`, template: 'work:<0>' };
    expect(written).toMatchObject({ ...common, mode: 'write', where: 'Work.write' });
    expect(read).toMatchObject({ ...common, mode: 'read', where: 'Work.read' });
    expect(byHand).toMatchObject({ key: `${key}, ${key}-2`, template: undefined, mode: 'write', where: '' });
    expect(byHand!.fencingToken).toBe(lock.fencingToken);
    for (const [i, { attempt, fencingToken, heldMs, holds }] of told.released.entries()) {
      const acquired = told.acquired[i]!;
      expect({ attempt, fencingToken, holds }).toEqual({ ...acquiredAs(acquired), holds: 0 });
      expect(heldMs).toBeGreaterThanOrEqual(0);
      expect(acquired.waitedMs).toBeGreaterThanOrEqual(0);
      expect(acquired.serverTimeMs).toBe(grantedAt(acquired));
    }
  });

  it('emits waiting, then acquired with the time waited, then released with the holds that remain', async () => {
    const [a, b] = [await start(), await start()];
    const [key, until] = [freshKey(), gate()];
    const first = a.work.write(key, until.opened);
    await eventually(() => a.told.acquired.length === 1);
    const second = b.work.write(key);
    await eventually(() => b.told.waiting.length === 1);
    const waited = performance.now();
    await eventually(() => performance.now() - waited > 30);
    until.open();
    await Promise.all([first, second]);
    expect(b.told.waiting).toEqual([
      {
        key: `work:${key}`,
        keys: [`work:${key}`],
        template: 'work:<0>',
        mode: 'write',
        where: 'Work.write',
        ahead: 0,
        holder: expect.any(String),
      },
    ]);
    expect(b.told.waiting[0]!.holder).toBe(`${HOLDER} Work.write`);
    expect(b.told.acquired[0]!.waitedMs).toBeGreaterThanOrEqual(30);
    expect(a.told.released[0]!.heldMs).toBeGreaterThanOrEqual(30);
    // Where there is a queue, the release has granted the lock to the next already.
    expect(a.told.released[0]!.holds).toBe(topology.supports.queue ? 1 : 0);
  });

  itOnSingle('emits skipped with the reason: busy, claimed, unavailable, shutdown', async () => {
    const [a, proxy] = [await start(), await proxyTo()];
    const b = await start(proxy.url);
    const key = freshKey();
    const held = await a.locks.acquire(`work:${key}`);
    expect([await b.work.skip(key), await b.work.orElse(key)]).toEqual([undefined, `work:${key}`]);
    await held.release();
    await b.work.job(key);
    await b.work.job(key);
    disconnect(proxy);
    await b.work.ifThere(key);
    await b.close();
    await b.work.job(key);
    const common = { key: `work:${key}`, keys: [`work:${key}`], template: 'work:<0>', mode: 'write' };
    expect(b.told.skipped).toEqual([
      { ...common, where: 'Work.skip', reason: 'busy' },
      { ...common, where: 'Work.orElse', reason: 'busy' },
      { ...common, where: 'Work.job', reason: 'claimed' },
      { ...common, where: 'Work.ifThere', reason: 'unavailable' },
      { ...common, where: 'Work.job', reason: 'shutdown' },
    ]);
  });
});

const acquiredAs = ({ attempt, fencingToken }: LockEventMap['acquired']) => ({ attempt, fencingToken });

describe('listeners', () => {
  afterEach(closeAll);

  it('may throw at once or later: the error is logged, and the lock is unaffected', async () => {
    const { locks, told, work } = await start();
    const logged = jest.spyOn(Logger.prototype, 'error').mockClear();
    locks.events.on('acquired', () => {
      throw new Error('in its turn');
    });
    locks.events.on('released', async () => Promise.reject(new Error('later')));
    const after: string[] = [];
    locks.events.on('acquired', ({ where }) => after.push(where));
    expect(await work.write(freshKey(), Promise.resolve('value'))).toBe('value');
    await eventually(() => logged.mock.calls.length === 2);
    const messages = logged.mock.calls.map(([text]) => String(text));
    logged.mockRestore();
    expect(messages[0]).toMatch(/"acquired".*in its turn/);
    expect(messages[1]).toMatch(/"released".*later/);
    expect(after).toEqual(['Work.write']);
    expect(counts(told)).toEqual({ acquired: 1, released: 1 });
  });
});
