import { Injectable } from '@nestjs/common';
import { Cron } from '@nestjs/schedule';
import { LOTTERY_CRON } from './lottery.settings.js';
import { LotteryService } from './lottery.service.js';

/** The job without its lock, for `LOTTERY_UNLOCKED=1`: every instance draws, and the runner's check fails. */
@Injectable()
export class UnlockedLotteryJob {
  constructor(private readonly lottery: LotteryService) {}

  @Cron(LOTTERY_CRON, { name: 'lottery' })
  async draw(): Promise<void> {
    await this.lottery.draw(null);
  }
}
