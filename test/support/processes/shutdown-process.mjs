// An app with shutdown hooks whose locked work continues when the signal comes, as a separate process, on the built
// package; reports what happens to its parent (test/nest/shutdown/shutdown.process.spec.ts).
import process from 'node:process';
import 'reflect-metadata';
import { Logger, Module } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { currentLock, Locked, RedisLockModule, RedisLockService } from '../../../dist/esm/index.js';

const { module, key, work } = JSON.parse(process.argv[2]);
const tell = (what, more = {}) => process.connected && process.send({ what, at: Date.now(), ...more });

let end;
const toEnd = new Promise((resolve) => (end = resolve));

const works = {
  /** Ends when its parent asks for it, and ignores its signal. */
  told: () => toEnd,
  /** Ends when its signal is aborted. */
  endless: ({ signal }) => new Promise((_, reject) => signal.addEventListener('abort', () => reject(signal.reason))),
  /** Ends never. */
  deaf: () => new Promise(() => setInterval(() => undefined, 1_000)),
};

class Work {
  async run() {
    const lock = currentLock();
    tell('began', { fencingToken: lock.fencingToken });
    try {
      await works[work](lock);
      tell('ended', { held: lock.held });
    } catch (error) {
      tell('aborted', { reason: error.reason, cause: error.cause?.code });
    }
  }
}
const descriptor = Object.getOwnPropertyDescriptor(Work.prototype, 'run');
Locked(key)(Work.prototype, 'run', descriptor);
Object.defineProperty(Work.prototype, 'run', descriptor);

class AppModule {
  /** After all of `drainMs`: what the work needs must not be closed before. */
  onApplicationShutdown(signal) {
    tell('shutdown', { signal });
  }
}
Module({ imports: [RedisLockModule.forRoot(module)], providers: [Work] })(AppModule);

Logger.overrideLogger(false);
const app = await NestFactory.createApplicationContext(AppModule, { logger: false });
app.enableShutdownHooks();
const does = {
  end,
  /** One more, that waits behind the work. */
  acquire: () =>
    app
      .get(RedisLockService)
      .acquire(key)
      .catch((error) => tell('refused', { code: error.code })),
};
process.on('message', (message) => does[message]());
app
  .get(Work)
  .run()
  .catch((error) => tell('failed', { code: error.code, reason: error.reason }));
