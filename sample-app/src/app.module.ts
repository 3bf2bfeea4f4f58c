import { Module } from '@nestjs/common';
import { ConfigModule, ConfigService } from '@nestjs/config';
import { APP_FILTER } from '@nestjs/core';
import { ScheduleModule } from '@nestjs/schedule';
import { LockExceptionFilter, RedisLockModule } from 'nestjs-redis-lock';
import { CatalogueModule } from './catalogue/catalogue.module.js';
import { DatabaseModule } from './database/database.module.js';
import { LocksController } from './locks.controller.js';
import { LotteryModule } from './lottery/lottery.module.js';
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
      }),
    }),
    DatabaseModule,
    LotteryModule,
    OrdersModule,
    CatalogueModule,
    ReportsModule,
  ],
  controllers: [LocksController],
  providers: [{ provide: APP_FILTER, useClass: LockExceptionFilter }],
})
export class AppModule {}
