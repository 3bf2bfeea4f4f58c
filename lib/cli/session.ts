import { setTimeout as sleep } from 'node:timers/promises';
import { systemClock } from '../core/clock.js';
import { LockStoreError } from '../core/lock.errors.js';
import { systemRandomness } from '../core/randomness.js';
import { type Reporter } from '../core/reporter.js';
import { systemAfterTurn } from '../core/runtime.js';
import { type RedisLocks, openStore } from '../redis/open-store.js';
import { type RedisLockStoreOptions } from '../redis/redis-lock-store.options.js';
import { createLockScripts } from '../redis/scripts/lock-scripts.js';
import { type Terminal } from './output/terminal.js';
import { type Settings } from './settings.js';

const ignore = (): void => undefined;

/** The commands detect and print what an app would log. */
const SILENT: Reporter = { debug: ignore, warn: ignore, error: ignore };

/** Locks of the tool itself are forgotten soon. */
const KEEP_MS = 60_000;

export interface Session {
  readonly settings: Settings;
  readonly terminal: Terminal;
  readonly locks: RedisLocks;
}

export const storeOptionsOf = ({
  keyPrefix,
  hashTag,
  timeoutMs,
}: Settings): Omit<RedisLockStoreOptions, 'connection' | 'clientId'> => ({
  keyPrefix,
  hashTag: hashTag === undefined ? undefined : () => hashTag,
  keepMs: KEEP_MS,
  operatorTimeoutMs: timeoutMs,
  minReplicas: 0,
  replicaTimeoutMs: 0,
  scripts: createLockScripts(),
  clock: systemClock,
  random: systemRandomness,
  afterTurn: systemAfterTurn,
  reporter: SILENT,
});

/** Opens the locks as the module does. It connects with the first command. */
export const openLocks = (settings: Settings): RedisLocks =>
  openStore({ ...storeOptionsOf(settings), connection: settings.connection });

/** Resolves as the promise does, or rejects when Redis has not answered in time. @throws LockStoreError */
export async function within<T>({ timeoutMs }: Pick<Settings, 'timeoutMs'>, answer: Promise<T>): Promise<T> {
  const answered = new AbortController();
  const late = sleep(timeoutMs, undefined, { signal: answered.signal }).then(() => {
    throw new LockStoreError(`Redis did not answer within ${timeoutMs} ms.`);
  });
  try {
    return await Promise.race([answer, late]);
  } finally {
    answered.abort();
  }
}

/** All items, for which the store may send any number of commands; stops when the tool must end. */
export async function allOf<T>({ terminal }: Session, items: AsyncIterable<T>): Promise<T[]> {
  const all: T[] = [];
  const iterator = items[Symbol.asyncIterator]();
  for (;;) {
    const next = await Promise.race([iterator.next(), terminal.ended]);
    if (!next || next.done === true || terminal.signal.aborted) return all;
    all.push(next.value);
  }
}
