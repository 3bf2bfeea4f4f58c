// One instance of an app as a separate process, on the built package; takes orders from its parent (child-app.ts).
import 'reflect-metadata';
import process from 'node:process';
import { Logger, Module } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { RedisLockModule, RedisLockService } from '../../../dist/esm/index.js';

const { options, skewMs } = JSON.parse(process.argv[2]);
const realNow = Date.now;
if (skewMs) Date.now = () => realNow() + skewMs;
Logger.overrideLogger(false);

class AppModule {}
Module({ imports: [RedisLockModule.forRoot(options)] })(AppModule);

const app = await NestFactory.createApplicationContext(AppModule);
const locks = app.get(RedisLockService);
let held = null;

const orders = {
  async acquire(key, lockOptions) {
    held = await locks.acquire(key, lockOptions);
    return held.fencingToken;
  },
  async adopt(text, adoptOptions) {
    held = await locks.adopt(text, adoptOptions);
    return held.fencingToken;
  },
  async tryAcquire(key, lockOptions) {
    held = await locks.tryAcquire(key, lockOptions);
    return held?.fencingToken ?? null;
  },
  transfer: () => held.transfer(),
  /** Resolves when the lock is lost. */
  async lost() {
    const { signal } = held;
    if (!signal.aborted) await new Promise((resolve) => signal.addEventListener('abort', resolve));
    return signal.reason.reason;
  },
  isHeld: async () => held?.held ?? false,
  release: () => held.release(),
  /** From here on the process must end by itself. */
  async close() {
    await app.close();
    setImmediate(() => process.disconnect());
    return process.getActiveResourcesInfo().filter((name) => name === 'Timeout' || name.startsWith('TCP'));
  },
};

process.on('message', ({ id, order, args }) => {
  orders[order](...args).then(
    (value) => process.send({ id, value }),
    (error) => process.send({ id, error: `${error.name}: ${error.message}` }),
  );
});
process.send({ id: 0 });
