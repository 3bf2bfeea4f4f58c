import { Cron, Interval } from '@nestjs/schedule';
import { LockBusyError, Locked, LockReentryError } from '../../../../lib/index.js';
import { FakeLockService, withFakeLocks } from '../../../../lib/testing/index.js';

class Jobs {
  runs = 0;

  @Cron('0 12 * * *')
  @Locked('noon', { oncePer: 'fire' })
  async noon(): Promise<string | undefined> {
    this.runs += 1;
    return 'ran';
  }

  @Interval(60_000)
  @Locked('slot', { oncePer: 'fire', rerunOnLoss: true, spreadMs: 3_600_000 })
  async slot(): Promise<string | undefined> {
    return 'ran';
  }

  @Locked('strict', { oncePer: 60_000, ifBusy: 'throw' })
  async strict(): Promise<string | undefined> {
    return 'ran';
  }

  @Locked('outer', { oncePer: 60_000 })
  async outer(): Promise<unknown> {
    return this.outer();
  }
}

let locks: FakeLockService;
let jobs: Jobs;

beforeEach(() => {
  locks = new FakeLockService();
  jobs = withFakeLocks(new Jobs(), locks);
});

describe('a job under fake locks', () => {
  it('runs at every call, without a scheduler and without a random delay', async () => {
    expect([await jobs.noon(), await jobs.noon(), await jobs.slot(), await jobs.strict()]).toEqual(
      ['ran', 'ran', 'ran', 'ran'],
    ); // prettier-ignore
    expect([jobs.runs, locks.keys]).toEqual([2, ['noon', 'noon', 'slot', 'strict']]);
  });

  it('is skipped when its lock is refused or its wait times out, unless its `ifBusy` says otherwise', async () => {
    locks.refuse();
    expect([await jobs.noon(), await jobs.slot()]).toEqual([undefined, undefined]);
    await expect(jobs.strict()).rejects.toBeInstanceOf(LockBusyError);
    locks.timeOut();
    expect([await jobs.noon(), await jobs.slot(), jobs.runs]).toEqual([undefined, undefined, 0]);
  });

  it('does not run inside itself', async () => {
    await expect(jobs.outer()).rejects.toBeInstanceOf(LockReentryError);
  });
});
