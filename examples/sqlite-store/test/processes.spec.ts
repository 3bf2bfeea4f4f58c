import { fork } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, mkdtempSync, readFileSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { transformFileSync } from '@swc/core';
import { RedisLockModule, RedisLockService } from 'nestjs-redis-lock';
import { type LockStoreFactory } from 'nestjs-redis-lock/store';
import { closeAll, startModule } from '../../../test/support/apps/lock-app.js';
import { swcOptions } from '../../../test/support/jest/compiled.cjs';
import { buildPackage } from '../../../test/support/processes/child-app.js';
import { SqliteLockStore } from '../src/sqlite-lock-store.js';

const example = join(import.meta.dirname, '..');
const folder = mkdtempSync(join(tmpdir(), 'sqlite-store-'));
afterEach(closeAll);
afterAll(() => rmSync(folder, { recursive: true, force: true }));

/** Compiles the store for separate processes; returns its URL. */
function compiledStore(): string {
  const dist = join(example, 'dist');
  mkdirSync(dist, { recursive: true });
  for (const file of readdirSync(join(example, 'src'))) {
    const { code } = transformFileSync(join(example, 'src', file), swcOptions('es6'));
    writeFileSync(join(dist, file.replace(/\.ts$/, '.js')), code);
  }
  return pathToFileURL(join(dist, 'sqlite-lock-store.js')).href;
}

describe('two processes with their locks in one SQLite file', () => {
  it('exclude each other, and each gets its turns', async () => {
    await buildPackage();
    const [locksFile, countFile] = [join(folder, 'processes.db'), join(folder, 'count')];
    writeFileSync(countFile, '0');
    const argument = JSON.stringify({ store: compiledStore(), locksFile, countFile, rounds: 25 });
    const script = join(import.meta.dirname, 'counting-process.mjs');
    const children = [1, 2].map(() => fork(script, [argument], { execArgv: [] }));
    const codes = await Promise.all(children.map(async (child) => ((await once(child, 'exit')) as [number])[0]));
    expect(codes).toEqual([0, 0]);
    expect(readFileSync(countFile, 'utf8')).toBe('50');
  }, 120_000);
});

describe('apps with their locks in one SQLite file', () => {
  async function start(): Promise<RedisLockService> {
    const store: LockStoreFactory = (context) => new SqliteLockStore(join(folder, 'apps.db'), context);
    const app = await startModule({ imports: [RedisLockModule.forRoot({ store })] });
    return app.get(RedisLockService);
  }

  it('hand a lock over, and notify a holder that it was revoked', async () => {
    const [one, other] = [await start(), await start()];
    const lock = await one.acquire('order:7');
    const waiting = other.acquire('order:7', { waitMs: 25_000 });
    await lock.release();
    const next = await waiting;
    expect(next.fencingToken).toBeGreaterThan(lock.fencingToken);
    const lost = new Promise((resolve) => next.signal.addEventListener('abort', () => resolve(next.signal.reason)));
    expect(await one.forceRelease('order:7')).toBe(true);
    expect(await lost).toMatchObject({ code: 'LOCK_LOST', reason: 'revoked' });
  });
});
