import 'reflect-metadata';
import { setTimeout as sleep } from 'node:timers/promises';
import { Injectable, Module } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { Leader, type LeaderHooks, type LeaderTerm, RedisLockModule } from 'nestjs-redis-lock';

/** One instance reads the feed. When it shuts down, another takes over at once; when it crashes, after at most one lease. */
@Leader('feed', { leaseMs: 10_000 })
@Injectable()
class Feed implements LeaderHooks {
  async onElected({ signal, fencingToken }: LeaderTerm): Promise<void> {
    console.log(`process ${process.pid} leads with token ${fencingToken}`);
    // A write of the leader carries its token, so that the database refuses an older leader.
    while (!signal.aborted) await sleep(500, undefined, { signal }).catch(() => undefined);
  }
}

@Module({
  imports: [
    RedisLockModule.forRoot({
      connection: process.env['REDIS_URL'] ?? 'redis://127.0.0.1:6379',
      keyPrefix: process.env['LOCK_PREFIX'] ?? 'leader-example:',
    }),
  ],
  providers: [Feed],
})
class AppModule {}

const app = await NestFactory.createApplicationContext(AppModule, { logger: ['warn', 'error', 'fatal'] });
// So that SIGTERM ends the term, and another instance leads at once.
app.enableShutdownHooks();
console.log('ready');
