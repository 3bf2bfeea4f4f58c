import { Module } from '@nestjs/common';
import { DrawsRepository } from './draws.repository.js';
import { LotteryJob } from './lottery.job.js';
import { LotteryService } from './lottery.service.js';
import { UNLOCKED } from './lottery.settings.js';
import { UnlockedLotteryJob } from './unlocked-lottery.job.js';

/** The scheduled job that runs on one instance per fire. */
@Module({ providers: [DrawsRepository, LotteryService, UNLOCKED ? UnlockedLotteryJob : LotteryJob] })
export class LotteryModule {}
