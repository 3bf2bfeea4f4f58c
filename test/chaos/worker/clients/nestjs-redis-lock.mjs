// The built package, in a Nest app, as users have it.
import 'reflect-metadata';
import { once } from 'node:events';
import { Inject, Logger, Module } from '@nestjs/common';
import { lastValueFrom } from 'rxjs';
import { NestFactory } from '@nestjs/core';
import { Locked, RedisLockModule, RedisLockService, currentLock } from '../../../../dist/esm/index.js';
import { JOB_LEASE_MS } from '../fires.mjs';
import { now } from '../standstills.mjs';
import { Decorated, decorate } from './decorated.mjs';

const DRAIN_MS = 500;

class Jobs {
  run(_fire, work) {
    return work(currentLock());
  }
}
const job = { oncePer: (fire) => new Date(fire), leaseMs: JOB_LEASE_MS, spreadMs: 0 };
decorate(Jobs, { run: Locked('job', job) });
Inject(RedisLockService)(Jobs, 'locks');

export async function open(connection, { minReplicas = 0, keepMs } = {}) {
  Logger.overrideLogger(false);
  class AppModule {}
  const options = { connection, keyPrefix: 'chaos:', drainMs: DRAIN_MS, minReplicas, keepMs };
  Module({ imports: [RedisLockModule.forRoot(options)], providers: [Jobs, Decorated] })(AppModule);
  const app = await NestFactory.createApplicationContext(AppModule, { logger: false });
  const locks = app.get(RedisLockService);
  return {
    close: () => app.close(),
    runJob: (fire, work) => app.get(Jobs).run(fire, (lock) => work(holdOf(lock, async () => true))),
    async use(call, work) {
      const options = optionsOf(call);
      const nested = (see) => locks.withLock(call.keys, { mode: call.mode }, (lock) => see(lock.fencingToken));
      // The end of the work releases it.
      const within = (lock) => work({ ...holdOf(lock, () => lock.release()), nested });
      if (call.via) return runDecorated(app.get(Decorated), call, within);
      if (!call.isNested) {
        return work(handleOf(await locks.acquire(call.keys, options)));
      }
      return locks.withLock(call.keys, options, within);
    },
    adopt: async (text) => handleOf(await locks.adopt(text)),
    lead(key, { leaseMs, onElected, onDemoted }) {
      const leadership = locks.lead(key, {
        leaseMs,
        onElected: ({ signal }) => onElected({ ...holdOf(currentLock()), held: () => leadership.isLeader() }, signal),
        onDemoted: (_term, reason) => onDemoted(reason),
      });
      return leadership;
    },
    /** Looks at locks in each way that there is. */
    async look(key) {
      await locks.inspect([key, 'job']);
      await locks.isLocked(key);
      await locks.lastRun('job');
      for await (const state of locks.list({ prefix: key[0], limit: 20 })) void state;
    },
    /** Revokes a lock; resolves to whether its holder lost it within its lease. */
    async revoke(key) {
      const leaseMs = 1_000;
      const lock = await locks.acquire(key, { leaseMs });
      try {
        const isLost = once(lock.signal, 'abort', { signal: AbortSignal.timeout(leaseMs) }).then(
          () => true,
          () => false,
        );
        await locks.forceRelease(key);
        return await isLost;
      } finally {
        await lock.release();
      }
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

async function runDecorated(decorated, { via, keys }, within) {
  const result = decorated[via](keys[0], within);
  if (via === 'observable') await lastValueFrom(result, { defaultValue: undefined });
  else if (via === 'iterable') for await (const _ of result);
  else await result;
}

const optionsOf = ({ mode, leaseMs, waitMs, permits, owner, fair, abortAfterMs }) => ({
  mode,
  leaseMs,
  waitMs,
  ...(permits && { permits }),
  ...(owner && { owner }),
  fair,
  ...(abortAfterMs !== undefined && { signal: AbortSignal.timeout(abortAfterMs) }),
});

/** A lock that its caller releases, or transfers. */
const handleOf = (lock) => ({
  ...holdOf(lock, () => lock.release()),
  mode: () => lock.mode,
  transfer: (leaseMs) => lock.transfer({ leaseMs }),
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
