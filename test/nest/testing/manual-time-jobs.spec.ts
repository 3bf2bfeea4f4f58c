import { Injectable } from '@nestjs/common';
import { Cron, Interval, ScheduleModule } from '@nestjs/schedule';
import { Locked, type LockEventMap, RedisLockService } from '../../../lib/index.js';
import { ManualClock, MemoryLockServer, RedisLockTestingModule } from '../../../lib/testing/index.js';
import { closeAll, startModule } from '../../support/apps/lock-app.js';
import { gate } from '../../support/waiting/gate.js';

const DAY = 24 * 3_600_000;
const SPREAD_MS = 50;

@Injectable()
class Jobs {
  until: Promise<void> = Promise.resolve();

  @Cron('0 12 * * *', { utcOffset: 0 })
  @Locked('noon', { oncePer: 'fire' })
  async noon(): Promise<string | undefined> {
    await this.until;
    return 'ran';
  }

  @Interval(DAY)
  @Locked('daily', { oncePer: 'fire', spreadMs: 0 })
  async daily(): Promise<string | undefined> {
    return 'ran';
  }

  @Locked('slot', { oncePer: 60_000, spreadMs: 0 })
  async slot(): Promise<string | undefined> {
    return 'ran';
  }

  @Locked('rerun', { oncePer: 60_000, spreadMs: 0, rerunOnLoss: true })
  async rerun(): Promise<string | undefined> {
    await this.until;
    return 'ran';
  }
}

let clock: ManualClock;
let server: MemoryLockServer;

beforeEach(() => {
  clock = new ManualClock(new Date('2030-05-01T11:59:59.000Z'));
  server = new MemoryLockServer({ clock });
});

afterEach(async () => {
  const closing = closeAll();
  await clock.advance(60_000);
  await closing;
});

async function startInstance() {
  const imports = [RedisLockTestingModule.forRoot({ server }), ScheduleModule.forRoot()];
  const app = await startModule({ imports, providers: [Jobs] });
  const skipped: LockEventMap['skipped']['reason'][] = [];
  app.get(RedisLockService).events.on('skipped', ({ reason }) => skipped.push(reason));
  return { app, jobs: app.get(Jobs), locks: app.get(RedisLockService), skipped };
}

describe('a job with a ManualClock', () => {
  it('runs on one of two instances for each fire of its @Cron', async () => {
    const [a, b] = [await startInstance(), await startInstance()];
    await clock.advance(1_000);
    const fireAll = async () => {
      const runs = Promise.all([a.jobs.noon(), b.jobs.noon()]);
      await clock.advance(SPREAD_MS);
      return (await runs).toSorted();
    };
    expect(await fireAll()).toEqual(['ran', undefined]);
    expect((await a.locks.lastRun('noon'))?.fire).toEqual(new Date('2030-05-01T12:00:00.000Z'));
    expect(await fireAll()).toEqual([undefined, undefined]);
    await clock.advance(DAY);
    expect(await fireAll()).toEqual(['ran', undefined]);
    expect((await b.locks.lastRun('noon'))?.fire).toEqual(new Date('2030-05-02T12:00:00.000Z'));
    expect([...a.skipped, ...b.skipped]).toEqual(Array.from({ length: 4 }, () => 'claimed'));
  });

  it('skips the next fire while it still runs', async () => {
    const [a, b] = [await startInstance(), await startInstance()];
    const until = gate();
    a.jobs.until = until.opened;
    await clock.advance(1_000);
    const first = a.jobs.noon();
    await clock.advance(DAY);
    const second = b.jobs.noon();
    await clock.advance(SPREAD_MS);
    until.open();
    expect([await first, await second, b.skipped]).toEqual(['ran', undefined, ['busy']]);
  });

  it('runs once per slot of its @Interval, or of its own width', async () => {
    const { jobs } = await startInstance();
    expect([await jobs.daily(), await jobs.slot(), await jobs.slot()]).toEqual(['ran', 'ran', undefined]);
    await clock.advance(1_000);
    expect([await jobs.daily(), await jobs.slot()]).toEqual([undefined, 'ran']);
    await clock.advance(DAY);
    expect([await jobs.daily(), await jobs.slot()]).toEqual(['ran', 'ran']);
  });

  it('runs again on a waiting instance when its instance dies, with `rerunOnLoss`', async () => {
    const [a, b] = [await startInstance(), await startInstance()];
    a.jobs.until = new Promise(() => undefined);
    void a.jobs.rerun().catch(() => undefined);
    await clock.advance(0);
    const again = b.jobs.rerun();
    await clock.advance(1_000);
    await a.locks.forceRelease('rerun');
    await clock.advance(30_000);
    expect(await again).toBe('ran');
  });
});
