import { RenewalsUnderWay } from '../../../../lib/redis/quorum/quorum-renewals.js';
import { settled } from '../../../../lib/testing/manual-clock.js';
import { gate } from '../../../support/waiting/gate.js';

describe('the renewals under way', () => {
  it('of an attempt all learn that it is released, as long as one is unanswered', async () => {
    const renewals = new RenewalsUnderWay();
    const [first, second] = [gate(), gate()];
    const heard: boolean[] = [];
    const renew = (attempt: string, { opened }: { opened: Promise<void> }) =>
      renewals.during(attempt, async (own) => {
        await opened;
        heard.push(own.isReleased);
      });
    const all = [renew('client.1', first), renew('client.1', second), renew('client.2', second)];
    first.open();
    await settled();
    renewals.onRelease('client.1');
    second.open();
    await Promise.all(all);
    expect(heard).toEqual([false, true, false]);
  });

  it('are forgotten when all have ended, including failed ones', async () => {
    const renewals = new RenewalsUnderWay();
    const failed = renewals.during('client.1', () => Promise.reject(new Error('lost')));
    const done = renewals.during('client.1', async () => 7);
    expect(renewals.size).toBe(1);
    await expect(failed).rejects.toThrow('lost');
    expect([await done, renewals.size]).toEqual([7, 0]);
    renewals.onRelease('client.1');
    expect(await renewals.during('client.1', async ({ isReleased }) => isReleased)).toBe(false);
    expect(renewals.size).toBe(0);
  });
});
