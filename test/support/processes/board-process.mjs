// One instance of an app with a board, as a separate process, on the built package; follows the orders of its parent
// (test/nest/board/board-app.ts).
import 'reflect-metadata';
import process from 'node:process';
import { Logger, Module } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { RedisLockModule, RedisLockService } from '../../../dist/esm/index.js';
import { RedisLockBoardModule } from '../../../dist/esm/board/index.js';

const { connection, leaseMs } = JSON.parse(process.argv[2]);
const tell = (kind, what = {}) => process.connected && process.send({ kind, ...what });

class AppModule {}
Module({
  imports: [
    RedisLockModule.forRoot({ connection, leaseMs, waitMs: Infinity, history: true }),
    RedisLockBoardModule.forRoot({
      unguarded: true,
      refreshMs: 250,
      actions: { forceRelease: true, user: () => 'ada' },
    }),
  ],
})(AppModule);

Logger.overrideLogger(false);
const app = await NestFactory.create(AppModule, { logger: false });
app.setGlobalPrefix('ops');
await app.listen(0, '127.0.0.1');
const locks = app.get(RedisLockService);

/** An unreferenced handle is released. */
const held = [];
async function hold(key, note) {
  const lock = await locks.acquire(key, { fair: 'strict', note });
  held.push(lock);
  const { signal } = lock;
  tell('acquired', { key });
  signal.addEventListener('abort', () => tell('lost', { key, reason: signal.reason.reason }));
}

process.on('message', ({ key, note = '' }) => void hold(key, note));
process.on('disconnect', () => process.exit());
tell('ready', { url: `${await app.getUrl()}/ops/locks` });
