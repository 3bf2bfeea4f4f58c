import 'reflect-metadata';
import { Cron, ScheduleModule } from '@nestjs/schedule';
import { Locked } from '../../../lib/index.js';
import { closeAll, freshKey, startApp } from '../../support/apps/lock-app.js';

const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;

/** Without summer time, and so far apart that this machine can agree with one of them at most. */
const INDIA = { timeZone: 'Asia/Kolkata', aheadMs: 5.5 * HOUR_MS };
const MARQUESAS = { timeZone: 'Pacific/Marquesas', aheadMs: -9.5 * HOUR_MS };

/** The hour that it is there; once, so that a test which goes on into the next hour expects the same. */
const now = Date.now();
const hourAt = ({ aheadMs }: typeof INDIA) => new Date(now + aheadMs).getUTCHours();
/** When that hour began. */
const beginAt = ({ aheadMs }: typeof INDIA) => Math.floor((now + aheadMs) / HOUR_MS) * HOUR_MS - aheadMs;

const of = ({ timeZone }: typeof INDIA) => ({ timeZone, disabled: true });
const FIRE = { oncePer: 'fire', spreadMs: 0 } as const;

class Jobs {
  @Cron(`0 0 ${hourAt(INDIA)} * * *`, of(INDIA))
  @Locked('<0>', FIRE)
  async inIndia(_key: string): Promise<string | undefined> {
    return 'ran';
  }

  @Cron(`0 0 ${hourAt(MARQUESAS)} * * *`, of(MARQUESAS))
  @Locked('<0>', FIRE)
  async onTheMarquesas(_key: string): Promise<string | undefined> {
    return 'ran';
  }

  /** The same wall-clock time as `inIndia`, somewhere else. */
  @Cron(`0 0 ${hourAt(INDIA)} * * *`, of(MARQUESAS))
  @Locked('<0>', FIRE)
  async hoursLater(_key: string): Promise<string | undefined> {
    return 'ran';
  }
}

async function start() {
  const { app, locks } = await startApp({}, { imports: [ScheduleModule.forRoot()], providers: [Jobs] });
  const fireOf = async (key: string) => (await locks.lastRun(key))!.fire.toISOString();
  return { jobs: app.get(Jobs), fireOf };
}

const toText = (ms: number): string => new Date(ms).toISOString();

describe('the fire of a @Cron with a time zone', () => {
  afterEach(closeAll);

  it.each([
    ['inIndia', beginAt(INDIA)],
    ['onTheMarquesas', beginAt(MARQUESAS)],
    ['hoursLater', beginAt(INDIA) + INDIA.aheadMs - MARQUESAS.aheadMs - DAY_MS],
  ] as const)('%s follows the wall clock of that zone, and runs once', async (method, fire) => {
    const [a, b, key] = [await start(), await start(), freshKey()];
    expect([await a.jobs[method](key), await b.jobs[method](key)]).toEqual(['ran', undefined]);
    expect(await a.fireOf(key)).toBe(toText(fire));
  });
});
