import { Module } from '@nestjs/common';
import { ConfigModule, ConfigService } from '@nestjs/config';
import { APP_FILTER } from '@nestjs/core';
import { ScheduleModule } from '@nestjs/schedule';
import { LockExceptionFilter, RedisLockModule } from 'nestjs-redis-lock';
import { RedisLockBoardModule } from 'nestjs-redis-lock/board';
import { CatalogueModule } from './catalogue/catalogue.module.js';
import { DatabaseModule } from './database/database.module.js';
import { INSTANCE } from './instance.js';
import { LocalGuard } from './local.guard.js';
import { LotteryModule } from './lottery/lottery.module.js';
import { NewsletterModule } from './newsletter/newsletter.module.js';
import { OrdersModule } from './orders/orders.module.js';
import { ReportsModule } from './reports/reports.module.js';

@Module({
  imports: [
    ConfigModule.forRoot({ isGlobal: true }),
    ScheduleModule.forRoot(),
    RedisLockModule.forRootAsync({
      inject: [ConfigService],
      useFactory: (config: ConfigService) => ({
        connection: config.get('REDIS_URL', 'redis://127.0.0.1:6379'),
        // Apps that share a Redis but not their locks need different prefixes.
        keyPrefix: config.get('LOCK_PREFIX', 'sample-app:'),
        waitMs: Number(config.get('LOCK_WAIT_MS', 10_000)),
        // The board shows what has happened.
        history: true,
      }),
    }),
    RedisLockBoardModule.forRoot({
      path: 'locks',
      guard: LocalGuard,
      actions: { forceRelease: true, user: () => `a reader of the board of ${INSTANCE}` },
    }),
    DatabaseModule,
    LotteryModule,
    OrdersModule,
    CatalogueModule,
    NewsletterModule,
    ReportsModule,
  ],
  providers: [{ provide: APP_FILTER, useClass: LockExceptionFilter }],
})
export class AppModule {}
