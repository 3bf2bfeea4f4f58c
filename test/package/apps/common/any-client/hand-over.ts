// What an app does with locks, whichever library its connections come from. It imports none, and so compiles without ioredis.
import { strict as assert } from 'node:assert';
import { randomUUID } from 'node:crypto';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { type INestApplicationContext } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { type RedisConnection, RedisLockModule, RedisLockService } from 'nestjs-redis-lock';

export const redisUrl = process.env['REDIS_URL'] ?? 'redis://127.0.0.1:6379';

async function open(connection: RedisConnection): Promise<INestApplicationContext> {
  const imports = [RedisLockModule.forRoot({ connection, drainMs: 100 })];
  return NestFactory.createApplicationContext(
    { module: class App {}, imports },
    { logger: false, abortOnError: false },
  );
}

async function eventually(isSo: () => Promise<boolean>): Promise<void> {
  const deadline = Date.now() + 10_000;
  while (!(await isSo())) {
    if (Date.now() > deadline) throw new Error(`It did not come true: ${String(isSo)}`);
    await sleep(5);
  }
}

/** Two instances: one waits for the lock of the other, gets it at its release, and both close. */
export async function checkHandOver(connections: readonly [RedisConnection, RedisConnection]): Promise<void> {
  const apps = await Promise.all(connections.map(open));
  try {
    const [a, b] = apps.map((app) => app.get(RedisLockService)) as [RedisLockService, RedisLockService];
    const key = randomUUID();
    const lock = await a.acquire(key);
    const waiting = b.acquire(key);
    waiting.catch(() => undefined);
    await eventually(async () => (await a.inspect(key)).waiters === 1);
    await lock.release();
    const next = await waiting;
    assert.ok(next.fencingToken > lock.fencingToken);
    const listed: string[] = [];
    for await (const state of a.list({ prefix: key })) listed.push(state.key);
    assert.deepEqual(listed, [key]);
    await next.release();
    assert.equal(await a.isLocked(key), false);
  } finally {
    await Promise.all(apps.map((app) => app.close()));
  }
}

/** Whether the package would load this one, if it had to. */
export function isInstalled(name: string): boolean {
  try {
    return createRequire(join(process.cwd(), 'package.json')).resolve(name) !== '';
  } catch {
    return false;
  }
}
