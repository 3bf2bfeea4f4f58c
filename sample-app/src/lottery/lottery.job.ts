import { Injectable } from '@nestjs/common';
import { Cron } from '@nestjs/schedule';
import { currentLock, Locked } from 'nestjs-redis-lock';
import { reportSkip } from './fire-report.js';
import { HOLD_AT_LEAST_MS, LEASE_MS, LOTTERY_CRON } from './lottery.settings.js';
import { LotteryService } from './lottery.service.js';

/** Fires on every instance and draws on one. */
@Injectable()
export class LotteryJob {
  constructor(private readonly lottery: LotteryService) {}

  // `ifBusy: 'skip'` would do the same without a word.
  @Cron(LOTTERY_CRON, { name: 'lottery' })
  @Locked('lottery', { ifBusy: reportSkip, holdAtLeastMs: HOLD_AT_LEAST_MS, leaseMs: LEASE_MS })
  async draw(): Promise<void> {
    const { fencingToken, signal } = currentLock();
    await this.lottery.draw(fencingToken, signal);
  }
}
