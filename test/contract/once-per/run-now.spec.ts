import { Injectable } from '@nestjs/common';
import { Locked, LockConfigurationError, runNow } from '../../../lib/index.js';
import { gate } from '../../support/waiting/gate.js';
import { rejection } from '../../support/waiting/rejection.js';
import { closeAll, freshKey, startApp } from '../../support/apps/lock-app.js';

/** So long that no test sees the end of one. */
const SLOT_MS = 30 * 24 * 3_600_000;

@Injectable()
class Reports {
  readonly runs: string[] = [];

  @Locked('report:<0>', { oncePer: SLOT_MS })
  async daily(id: string, task: () => Promise<unknown> = async () => undefined): Promise<string | undefined> {
    await task();
    this.runs.push(id);
    return id;
  }

  @Locked('order:<0>')
  async order(_id: string): Promise<void> {}
}

const start = async () => {
  const { app, locks } = await startApp({}, { providers: [Reports] });
  return { reports: app.get(Reports), locks };
};

describe('a run by hand', () => {
  afterEach(closeAll);

  it('runs a job between two fires, as often as it is asked for, and uses up no fire', async () => {
    const { reports, locks } = await start();
    const id = freshKey();
    expect(await runNow(() => reports.daily(id))).toBe(id);
    expect(await reports.daily(id)).toBe(id);
    expect(await reports.daily(id)).toBeUndefined();
    const last = await locks.lastRun(`report:${id}`);
    expect(await runNow(() => reports.daily(id))).toBe(id);
    expect(reports.runs).toHaveLength(3);
    // Each node of a quorum has its own time of the end.
    expect(await locks.lastRun(`report:${id}`)).toEqual({ ...last, ended: expect.any(Date) });
  });

  it('ends with its function: a job that is called later from there claims its fire', async () => {
    const { reports } = await start();
    const [id, ready] = [freshKey(), gate()];
    let later: Promise<string | undefined> = Promise.resolve(undefined);
    const leaveBehind = (): void => void (later = ready.opened.then(() => reports.daily(id)));
    expect(await rejection(runNow(leaveBehind))).toBeInstanceOf(LockConfigurationError);
    ready.open();
    expect(await later).toBe(id);
    expect(await reports.daily(id)).toBeUndefined();
  });

  it('holds the lock of the job: what it meets is rejected, and a fire meanwhile is skipped', async () => {
    const [a, b] = [await start(), await start()];
    const [id, ready, done] = [freshKey(), gate(), gate()];
    const running = runNow(() => a.reports.daily(id, async () => (ready.open(), done.opened)));
    await ready.opened;
    expect(await rejection(runNow(() => b.reports.daily(id)))).toMatchObject({
      code: 'LOCK_BUSY',
      key: `report:${id}`,
    });
    const skipped: string[] = [];
    b.locks.events.on('skipped', ({ reason }) => skipped.push(reason));
    expect(await b.reports.daily(id)).toBeUndefined();
    expect(skipped).toEqual(['busy']);
    done.open();
    expect(await running).toBe(id);
  });

  it('is that of one job: what the job calls in turn claims its fires as always', async () => {
    const { reports } = await start();
    const [id, inner] = [freshKey(), freshKey()];
    const task = (): Promise<unknown> => reports.daily(inner);
    expect(await runNow(() => reports.daily(id, task))).toBe(id);
    expect(await reports.daily(inner)).toBeUndefined();
  });

  it('is rejected when the function calls no job, or is none', async () => {
    const { reports } = await start();
    const error = await rejection(runNow(() => reports.order('7')));
    expect(error).toBeInstanceOf(LockConfigurationError);
    expect(error.message).toMatch(/runNow\(\) .*called no method with `oncePer`/);
    expect(await rejection(runNow('reports' as never))).toMatchObject({
      message: expect.stringMatching(/the work of runNow\(\) to be a function, got string/),
    });
  });
});
