import 'reflect-metadata';
import { Injectable } from '@nestjs/common';
import { Cron, Interval, ScheduleModule } from '@nestjs/schedule';
import { type Lock, LockBusyError, Locked, type RedisLockModuleOptions } from '../../../lib/index.js';
import { type BoardActions, RedisLockBoardModule } from '../../../lib/board/index.js';
import { logger } from '../../../lib/interceptor/lock-logger.js';
import { closeAll, freshKey } from '../../support/apps/lock-app.js';
import { eventually } from '../../support/waiting/eventually.js';
import { cli } from '../../cli/support/cli.js';
import { startRequests } from '../support/requests.js';
import { readPage } from './read-page.js';

afterEach(closeAll);

const [NOON, SLOTS, OTHER] = [freshKey('noon'), freshKey('slots'), freshKey('other')];
const DAY_MS = 24 * 3_600_000;

abstract class Base {
  @Locked(SLOTS, { oncePer: 60_000, spreadMs: 0 })
  async slots(): Promise<void> {}
}

@Injectable()
class Reports extends Base {
  @Cron('0 12 * * *')
  @Locked(NOON, { oncePer: 'fire' })
  async noon(): Promise<void> {}

  @Interval(DAY_MS)
  @Locked(NOON, { oncePer: 'fire' })
  async daily(): Promise<void> {}

  @Locked('order:<0>', { oncePer: 60_000 })
  async perOrder(_id: string): Promise<void> {}

  @Locked(OTHER)
  async noJob(): Promise<void> {}

  @Locked(OTHER, { oncePer: 60_000, connection: 'jobs' })
  async elsewhere(): Promise<void> {}
}

@Injectable()
class Cleanup {
  @Locked(SLOTS, { oncePer: 60_000 })
  async run(): Promise<void> {}

  @Locked(OTHER, { oncePer: 60_000 })
  async fail(): Promise<void> {
    throw new LockBusyError('The lock "inner" is busy.', { key: 'inner' });
  }
}

const start = (locks: RedisLockModuleOptions = {}) => {
  const metadata = {
    imports: [ScheduleModule.forRoot(), RedisLockBoardModule.forRoot({ unguarded: true, refreshMs: 250 })],
    // Nest does not build it: it would need a module for the other connection.
    providers: [{ provide: Reports, useValue: new Reports() }],
  };
  return startRequests('express', metadata, { locks });
};

describe('the board', () => {
  it('shows the jobs of the app, with their last run and their next fire', async () => {
    const { app, url } = await start({ keyPrefix: `${freshKey('jobs')}:` });
    const page = await readPage(`${url}/locks/events?view=jobs`);
    const { jobs } = await page.next('state', (state) => state);
    const idle = { isOwn: true, last: null, next: expect.any(Number), nextInMs: expect.any(Number) };
    expect(jobs).toEqual([
      { name: 'Reports.daily', key: NOON, ...idle },
      { name: 'Reports.noon', key: NOON, ...idle },
      { name: 'Reports.slots', key: SLOTS, ...idle },
    ]);
    for (const { next, nextInMs } of jobs) {
      expect(nextInMs).toBeGreaterThanOrEqual(0);
      expect(next - Date.now()).toBeLessThanOrEqual(DAY_MS);
    }
    await app.get(Reports).slots();
    const last = await page.next('state', (state) => state.jobs[2].last);
    expect(last).toMatchObject({ outcome: 'done', instance: expect.stringContaining(`:${process.pid}`) });
    expect(last.ranMs).toBeGreaterThanOrEqual(0);
  });

  it('runs a job by hand if it may, as often as it is asked, and names who does it', async () => {
    const [keyPrefix, warn] = [`${freshKey('jobs')}:`, jest.spyOn(logger, 'warn')];
    const ask = async (actions: BoardActions, body: object) => {
      const imports = [RedisLockBoardModule.forRoot({ unguarded: true, refreshMs: 250, actions })];
      const { app, get } = await startRequests('express', { imports, providers: [Cleanup] }, { locks: { keyPrefix } });
      const headers = { 'content-type': 'application/json', 'x-lock-board': 'run-now' };
      const run = (): Promise<{ status: number; text: string }> =>
        get('locks/run-now', { method: 'POST', headers, body: JSON.stringify(body) });
      return { cleanup: app.get(Cleanup), run };
    };
    const job = { name: 'Cleanup.run', key: SLOTS };
    expect((await (await ask({}, job)).run()).status).toBe(404);
    expect((await (await ask({ runNow: true }, { ...job, name: 'Other' })).run()).status).toBe(400);
    const { cleanup, run } = await ask({ runNow: true, user: () => 'ada' }, job);
    const spy = jest.spyOn(cleanup, 'run');
    for (let i = 0; i < 2; i += 1) expect(JSON.parse((await run()).text)).toEqual({ isRunning: false });
    expect(spy).toHaveBeenCalledTimes(2);
    expect(warn).toHaveBeenLastCalledWith(`ada runs the job Cleanup.run with the lock "${SLOTS}" by hand.`);
    const lock = await (await start({ keyPrefix })).locks.acquire(SLOTS);
    const { status, text } = await run();
    expect([status, JSON.parse(text).error]).toEqual([409, expect.stringContaining(`"${SLOTS}"`)]);
    await lock.release();
    // The job ran: what it met was another lock.
    const failed = await (await ask({ runNow: true }, { name: 'Cleanup.fail', key: OTHER })).run();
    expect([failed.status, JSON.parse(failed.text).error]).toEqual([500, 'The lock "inner" is busy.']);
  });

  it.each([
    ['has ended', true, [], 0, 'The job Reports.noon has ended without an error.\n'],
    ['is not a job of this app', true, ['--job', 'Other'], 1, 'The board answered with 400. This instance has no job'],
    ['may not be run', false, [], 1, 'The board answered with 404. This board does not run jobs.\n'],
  ])('runs a job for the command line tool, which reports that it %s', async (_what, runNow, more, code, text) => {
    const { url, app } = await startRequests('express', {
      imports: [RedisLockBoardModule.forRoot({ unguarded: true, actions: { runNow } })],
      providers: [{ provide: Reports, useValue: new Reports() }],
    });
    const spy = jest.spyOn(app.get(Reports), 'noon');
    const ended = await cli(['run', NOON, '--job', 'Reports.noon', ...more, '--board', `${url}/locks/`]);
    expect(ended).toEqual({
      code,
      stdout: '',
      stderr: '',
      [code === 0 ? 'stdout' : 'stderr']: expect.stringContaining(text),
    });
    expect(spy).toHaveBeenCalledTimes(code === 0 ? 1 : 0);
  });

  it('shows the jobs of another app that has run them', async () => {
    const locks = { keyPrefix: `${freshKey('jobs')}:` };
    const other = await startRequests('express', { providers: [Cleanup] }, { locks });
    const board = RedisLockBoardModule.forRoot({ unguarded: true, refreshMs: 250 });
    const viewer = await startRequests('express', { imports: [board] }, { locks });
    const page = await readPage(`${viewer.url}/locks/events?view=jobs`);
    expect(await page.next('state', (state) => state)).toEqual({ jobs: [], hasMore: false });
    await other.app.get(Cleanup).run();
    const { jobs } = await page.next('state', (state) => state.jobs[0]?.last.outcome === 'done' && state);
    expect(jobs).toMatchObject([{ name: 'Cleanup.run', key: SLOTS, next: null, last: { outcome: 'done' } }]);
  });

  it('shows what all instances have lost if there is a history, each loss once', async () => {
    const locks = { history: true, keyPrefix: `${freshKey('history')}:` };
    const [viewer, other] = [await start(locks), await start(locks)];
    const page = await readPage(`${viewer.url}/locks/events?view=losses`);
    expect(await page.next('state', (state) => state)).toMatchObject({
      ofInstance: null,
      history: { entries: [], limit: 200, searched: 2_000 },
    });
    const lost = [await other.locks.acquire(freshKey()), await viewer.locks.acquire(freshKey(), { mode: 'read' })];
    for (const { key, signal } of lost) {
      await viewer.locks.forceRelease(key);
      await eventually(() => signal.aborted);
    }
    const isKnown = (losses: { key: string }[]): boolean =>
      lost.every(({ key }) => losses.some((loss) => loss.key === key));
    const losses = await page.next('state', ({ history }) => isKnown(history.entries) && history.entries);
    const common = { reason: 'revoked', instance: expect.stringContaining(`:${process.pid}`) };
    // Losses of two instances in one millisecond have no order.
    const times = losses.map(({ at }: { at: number }) => at);
    expect(times).toEqual(times.toSorted((a: number, b: number) => b - a));
    expect(losses).toHaveLength(2);
    const lossOf = (lock: Lock) => losses.find(({ key }: { key: string }) => key === lock.key);
    expect(lossOf(lost[1]!)).toMatchObject({ ...common, mode: 'read', token: String(lost[1]!.fencingToken) });
    expect(lossOf(lost[0]!)).toMatchObject({ ...common, mode: 'write', ms: expect.any(Number) });
  });
});
