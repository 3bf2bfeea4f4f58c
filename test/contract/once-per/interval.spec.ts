import 'reflect-metadata';
import { Injectable } from '@nestjs/common';
import { Interval, ScheduleModule } from '@nestjs/schedule';
import { Locked, RedisLockService, currentLock } from '../../../lib/index.js';
import { eventually } from '../../support/waiting/eventually.js';
import { closeAll, freshKey, startApp } from '../../support/apps/lock-app.js';
import { grantedAt } from '../../support/redis/records.js';

const WIDTH_MS = 250;
const KEY = freshKey('job');

@Injectable()
class Jobs {
  readonly runs: { readonly fire: number; readonly fencingToken: number }[] = [];
  skips = 0;

  constructor(private readonly locks: RedisLockService) {
    locks.events.on('skipped', ({ reason }) => void (reason === 'claimed' && (this.skips += 1)));
  }

  @Interval(WIDTH_MS)
  @Locked(KEY, { oncePer: 'fire' })
  async run(): Promise<void> {
    const { fencingToken } = currentLock();
    const { fire } = (await this.locks.lastRun(KEY))!;
    this.runs.push({ fire: fire.getTime(), fencingToken });
  }
}

describe('a job with `oncePer` in several instances of one process', () => {
  afterEach(closeAll);

  it('runs an @Interval once per interval', async () => {
    const start = () => startApp({}, { imports: [ScheduleModule.forRoot()], providers: [Jobs] });
    const apps = await Promise.all([start(), start(), start()]);
    const jobs = apps.map(({ app }) => app.get(Jobs));
    const runs = () => jobs.flatMap((job) => job.runs);
    const skipped = () => jobs.reduce((sum, { skips }) => sum + skips, 0);
    await eventually(() => runs().length >= 6 && skipped() >= 6, { timeoutMs: 20_000 });
    await Promise.all(apps.map((app) => app.close()));
    const fires = runs().map(({ fire }) => fire);
    expect(fires).toHaveLength(new Set(fires).size);
    // Each is the slot of its call, by the clock of the server.
    for (const run of runs()) {
      expect(run.fire % WIDTH_MS).toBe(0);
      expect(run.fire).toBeLessThanOrEqual(grantedAt(run));
      expect(run.fire).toBeGreaterThan(grantedAt(run) - 600_000);
    }
  });
});
