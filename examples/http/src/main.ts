import 'reflect-metadata';
import { setTimeout as sleep } from 'node:timers/promises';
import { Controller, Module, Param, Post } from '@nestjs/common';
import { APP_FILTER, NestFactory } from '@nestjs/core';
import { Locked, LockExceptionFilter, RedisLockModule } from 'nestjs-redis-lock';

@Controller('orders')
class Orders {
  /** A second call for the same order waits for the first one, on any instance; a call for another order does not. */
  @Post(':id/charge')
  @Locked('order:<0>', { waitMs: 10_000 })
  async charge(@Param('id') id: string) {
    const from = Date.now();
    await sleep(200); // A payment.
    return { id, instance: process.pid, from, to: Date.now() };
  }
}

@Module({
  imports: [
    RedisLockModule.forRoot({
      connection: process.env['REDIS_URL'] ?? 'redis://127.0.0.1:6379',
      keyPrefix: process.env['LOCK_PREFIX'] ?? 'http-example:',
    }),
  ],
  controllers: [Orders],
  // Answers 423 for a lock that stays busy, and 503 while Redis cannot be reached.
  providers: [{ provide: APP_FILTER, useClass: LockExceptionFilter }],
})
class AppModule {}

const app = await NestFactory.create(AppModule, { logger: ['warn', 'error', 'fatal'] });
app.enableShutdownHooks();
await app.listen(Number(process.env['PORT'] ?? 3000), '127.0.0.1');
console.log(`ready at ${await app.getUrl()}`);
