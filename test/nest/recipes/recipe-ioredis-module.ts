import { Module } from '@nestjs/common';
import { getRedisConnectionToken, RedisModule } from '@nestjs-modules/ioredis';
import { type Redis } from 'ioredis';
import { RedisLockModule } from '../../../lib/index.js';

/** The locks use the client that the app has already; one more connection listens for wake-ups. */
@Module({
  imports: [
    RedisModule.forRoot({ type: 'single', url: process.env['REDIS_URL'] ?? 'redis://127.0.0.1:6379' }),
    RedisLockModule.forRootAsync({
      inject: [getRedisConnectionToken()],
      useFactory: (client: Redis) => ({ connection: client }),
    }),
  ],
})
export class AppModule {}
