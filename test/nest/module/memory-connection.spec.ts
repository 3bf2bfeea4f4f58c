import { Logger } from '@nestjs/common';
import { Test } from '@nestjs/testing';
import { TerminusModule } from '@nestjs/terminus';
import {
  getLockServiceToken,
  LockConfigurationError,
  type LockStoreFactory,
  RedisLockModule,
  type RedisLockModuleOptions,
  RedisLockService,
} from '../../../lib/index.js';
import type * as processMemory from '../../../lib/memory/process-memory.js';
import { LockHealthIndicator } from '../../../lib/observability/terminus.js';
import { useMemoryLocks } from '../../../lib/testing/index.js';
import { closeAll, freshKey, startModule } from '../../support/apps/lock-app.js';
import { rejection } from '../../support/waiting/rejection.js';

const COPY: string = '../../../lib/memory/process-memory.ts?copy';

const memory = (options: RedisLockModuleOptions = {}) =>
  RedisLockModule.forRoot({ connection: 'memory', drainMs: 100, ...options });

async function start(options?: RedisLockModuleOptions): Promise<RedisLockService> {
  const app = await startModule({ imports: [memory(options)] });
  return app.get<RedisLockService>(getLockServiceToken(options?.name));
}

const ENVIRONMENT = process.env['NODE_ENV'];

afterEach(async () => {
  process.env['NODE_ENV'] = ENVIRONMENT;
  await closeAll();
});

// Of one process, so it comes first in this file.
describe('the first module that keeps its locks in the memory of the process', () => {
  it('says so when it starts, and the others do not repeat it', async () => {
    const warn = jest.spyOn(Logger.prototype, 'warn').mockImplementation(() => undefined);
    await startModule({ imports: [memory(), memory({ name: 'jobs' })] });
    await start({ name: 'audit' });
    expect(warn.mock.calls.map(([text]) => text)).toEqual([expect.stringContaining('in the memory of this process')]);
    warn.mockRestore();
  });
});

describe('locks in the memory of the process', () => {
  it('are shared by all modules with the same keyPrefix, whatever their names, and by no others', async () => {
    const [one, other] = [await start(), await start()];
    const app = await startModule({
      imports: [memory({ name: 'jobs' }), memory({ name: 'audit', keyPrefix: 'audit:' })],
    });
    const key = freshKey();
    const lock = await one.acquire(key);
    const [jobs, audit] = ['jobs', 'audit'].map((name) => app.get<RedisLockService>(getLockServiceToken(name)));
    expect(await Promise.all([other, jobs!, audit!].map((locks) => locks.isLocked(key)))).toEqual([true, true, false]);
    await lock.release();
  });

  it('are shared with another copy of the package, as an ES module and CommonJS are', async () => {
    const copy = (await import(COPY)) as typeof processMemory;
    const store: LockStoreFactory = (options) => copy.openProcessMemory(options);
    const other = await startModule({ imports: [RedisLockModule.forRoot({ store })] });
    const key = freshKey();
    const lock = await (await start()).acquire(key);
    expect(await other.get(RedisLockService).tryAcquire(key)).toBeNull();
    await lock.release();
  });

  it('come from a factory as well', async () => {
    const useFactory = async () => ({ connection: 'memory' });
    const app = await startModule({ imports: [RedisLockModule.forRootAsync({ useFactory })] });
    expect(await app.get(RedisLockService).withLock(freshKey(), () => 'ran')).toBe('ran');
  });

  it('are healthy', async () => {
    const imports = [memory(), TerminusModule.forRoot({ logger: false })];
    const app = await startModule({ imports, providers: [LockHealthIndicator] });
    const { locks } = await app.get(LockHealthIndicator).isHealthy();
    expect(locks).toMatchObject({ status: 'up', held: 0 });
  });

  it('are replaced in a test by useMemoryLocks', async () => {
    const app = await useMemoryLocks(Test.createTestingModule({ imports: [memory()] })).compile();
    await app.init();
    const key = freshKey();
    const lock = await app.get(RedisLockService).acquire(key);
    expect(await (await start()).isLocked(key)).toBe(false);
    await lock.release();
    await app.close();
  });
});

describe("connection: 'memory' is refused", () => {
  it.each<[string, RedisLockModuleOptions]>([
    ['minReplicas', { minReplicas: 1 }],
    ['replicaTimeoutMs', { replicaTimeoutMs: 500 }],
    ['hashTag', { hashTag: () => 'tag' }],
    ['memoryInProduction', { memoryInProduction: 'yes' as never }],
  ])('with a wrong %s', async (name, options) => {
    const error = await rejection(start(options));
    expect(error).toBeInstanceOf(LockConfigurationError);
    expect(error.message).toContain(`Expected \`${name}\` to be`);
  });

  it('as a master of a quorum', async () => {
    const error = await rejection(start({ connection: ['redis://127.0.0.1:1', 'memory', 'redis://127.0.0.1:2'] }));
    expect(error).toBeInstanceOf(LockConfigurationError);
    expect(error.message).toContain("Expected `connection[1]` to be one master of a quorum, got 'memory'");
  });

  it('where NODE_ENV is production, unless that is allowed', async () => {
    process.env['NODE_ENV'] = 'production';
    const error = await rejection(start());
    expect(error).toBeInstanceOf(LockConfigurationError);
    expect(error.message).toContain('`memoryInProduction: true`');
    expect(await (await start({ memoryInProduction: true })).withLock(freshKey(), () => 'ran')).toBe('ran');
  });
});
