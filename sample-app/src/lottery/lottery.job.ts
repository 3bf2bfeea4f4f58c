import { Injectable, type OnModuleInit } from '@nestjs/common';
import { Cron } from '@nestjs/schedule';
import { currentLock, Locked, RedisLockService } from 'nestjs-redis-lock';
import { reportSkip } from './fire-report.js';
import { LEASE_MS, LOTTERY_CRON } from './lottery.settings.js';
import { LotteryService } from './lottery.service.js';

/** Fires on every instance and draws on one. */
@Injectable()
export class LotteryJob implements OnModuleInit {
  constructor(
    private readonly lottery: LotteryService,
    private readonly locks: RedisLockService,
  ) {}

  /** Without this, an instance that does not draw would report nothing. */
  onModuleInit(): void {
    this.locks.events.on('skipped', ({ template }) => template === 'lottery' && reportSkip());
  }

  @Cron(LOTTERY_CRON, { name: 'lottery' })
  @Locked('lottery', { oncePer: 'fire', leaseMs: LEASE_MS })
  async draw(): Promise<void> {
    const { fencingToken, signal } = currentLock();
    await this.lottery.draw(fencingToken, signal);
  }
}
