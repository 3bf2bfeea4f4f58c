// Starts the recipe of `@nestjs-modules/ioredis`, which Jest cannot load (it is CommonJS, and requires Nest's ES modules): prints the
// key that Redis has while a lock is held, asked on the client of the app.
import 'reflect-metadata';
import { register } from 'node:module';
import { NestFactory } from '@nestjs/core';
import { getRedisConnectionToken } from '@nestjs-modules/ioredis';

register('../jest/hooks.mjs', import.meta.url);
const { RedisLockService } = await import('../../../lib/index.ts');
const { AppModule } = await import('../../nest/recipes/recipe-ioredis-module.ts');

const [key] = process.argv.slice(2);
const app = await NestFactory.createApplicationContext(AppModule, { logger: false });
const client = app.get(getRedisConnectionToken());
await app.get(RedisLockService).withLock(key, async () => {
  if ((await client.exists(`lock:${key}`)) === 1) console.log(`lock:${key}`);
});
await app.close();
client.disconnect();
