// The built package, in a Nest app, as users have it.
import 'reflect-metadata';
import { Inject, Logger, Module } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { Locked, RedisLockModule, RedisLockService, currentLock } from '../../../../dist/esm/index.js';
import { JOB_LEASE_MS } from '../fires.mjs';
import { now } from '../log.mjs';

const DRAIN_MS = 500;

class Jobs {
  run(_fire, work) {
    return work(currentLock());
  }
}
const descriptor = Object.getOwnPropertyDescriptor(Jobs.prototype, 'run');
const job = { oncePer: (fire) => new Date(fire), leaseMs: JOB_LEASE_MS, spreadMs: 0 };
Locked('job', job)(Jobs.prototype, 'run', descriptor);
Object.defineProperty(Jobs.prototype, 'run', descriptor);
Inject(RedisLockService)(Jobs, 'locks');

export async function open(connection, { minReplicas = 0 } = {}) {
  Logger.overrideLogger(false);
  class AppModule {}
  const options = { connection, keyPrefix: 'chaos:', drainMs: DRAIN_MS, minReplicas };
  Module({ imports: [RedisLockModule.forRoot(options)], providers: [Jobs] })(AppModule);
  const app = await NestFactory.createApplicationContext(AppModule, { logger: false });
  const locks = app.get(RedisLockService);
  return {
    close: () => app.close(),
    runJob: (fire, work) => app.get(Jobs).run(fire, (lock) => work(holdOf(lock, async () => true))),
    async use(call, work) {
      const options = optionsOf(call);
      if (!call.isNested) {
        const lock = await locks.acquire(call.keys, options);
        return work(holdOf(lock, () => lock.release()));
      }
      const nested = (see) => locks.withLock(call.keys, { mode: call.mode }, (lock) => see(lock.fencingToken));
      // The end of the work releases it.
      return locks.withLock(call.keys, options, (lock) => work({ ...holdOf(lock, () => lock.release()), nested }));
    },
    forceRelease: (key) => locks.forceRelease(key),
    /** All locks that are held or waited for. */
    async list() {
      const found = [];
      for await (const state of locks.list()) found.push(JSON.stringify(state));
      return found;
    },
  };
}

const optionsOf = ({ mode, leaseMs, waitMs, permits, owner, unfair, abortAfterMs }) => ({
  mode,
  leaseMs,
  waitMs,
  ...(permits && { permits }),
  ...(owner && { owner }),
  ...(unfair && { fair: false }),
  ...(abortAfterMs !== undefined && { signal: AbortSignal.timeout(abortAfterMs) }),
});

const holdOf = (lock, release) => ({
  tokens: lock.fencingTokens,
  held: () => lock.held,
  /** The clock is read first, so that this is never later than the deadline. */
  until() {
    const at = now();
    const { remainingMs } = lock;
    return remainingMs > 0 ? at + remainingMs : null;
  },
  onLost: (tell) => lock.signal.addEventListener('abort', () => tell(lock.signal.reason?.reason), { once: true }),
  extend: (leaseMs) => lock.extend(leaseMs),
  downgrade: () => lock.downgrade(),
  release,
});
