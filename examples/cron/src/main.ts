import 'reflect-metadata';
import { Injectable, Module } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { Cron, ScheduleModule } from '@nestjs/schedule';
import { currentLock, Locked, RedisLockModule } from 'nestjs-redis-lock';

@Injectable()
class Reports {
  /** Every instance fires each second; one of them runs it. The lease is shorter than the period. */
  @Cron('* * * * * *', { name: 'report' })
  @Locked('report', { oncePer: 'fire', leaseMs: 900 })
  async write(): Promise<void> {
    console.log(`process ${process.pid} wrote report ${currentLock().fencingToken}`);
  }
}

@Module({
  imports: [
    ScheduleModule.forRoot(),
    RedisLockModule.forRoot({
      connection: process.env['REDIS_URL'] ?? 'redis://127.0.0.1:6379',
      keyPrefix: process.env['LOCK_PREFIX'] ?? 'cron-example:',
    }),
  ],
  providers: [Reports],
})
class AppModule {}

const app = await NestFactory.createApplicationContext(AppModule, { logger: ['warn', 'error', 'fatal'] });
// So that SIGTERM releases the lock.
app.enableShutdownHooks();
console.log('ready');
