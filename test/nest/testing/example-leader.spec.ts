import { Cron } from '@nestjs/schedule';
import { Leader, leadershipOf } from '../../../lib/index.js';
import { FakeLockService, withFakeLocks } from '../../../lib/testing/index.js';

@Leader('reports')
class Reports {
  @Cron('0 12 * * *')
  async noon(): Promise<string | undefined> {
    return 'written';
  }
}

it('reports are written where the instance leads', async () => {
  const locks = new FakeLockService();
  const reports = withFakeLocks(new Reports(), locks);
  await leadershipOf(reports).waitUntilLeader();
  expect(await reports.noon()).toBe('written');

  // Another instance leads from now on.
  locks.refuse('reports').lose('reports');
  expect(await reports.noon()).toBeUndefined();

  locks.grant('reports');
  await leadershipOf(reports).waitUntilLeader();
  expect(await reports.noon()).toBe('written');
  await leadershipOf(reports).stop();
});
