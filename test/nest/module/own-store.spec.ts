import { Injectable, Logger } from '@nestjs/common';
import { Test } from '@nestjs/testing';
import {
  getLockServiceToken,
  LockConfigurationError,
  Locked,
  RedisLockModule,
  type RedisLockModuleOptions,
  RedisLockService,
} from '../../../lib/index.js';
import { type LockStore, type LockStoreContext, type LockStoreFactory } from '../../../lib/store.js';
import { MemoryLockServer, MemoryLockStore, useMemoryLocks } from '../../../lib/testing/index.js';
import { FakeStore } from '../../support/core/fake-store.js';
import { closeAll, freshKey, startModule } from '../../support/apps/lock-app.js';
import { rejection } from '../../support/waiting/rejection.js';
import type * as processMemory from '../../../lib/memory/process-memory.js';

afterEach(closeAll);

const server = new MemoryLockServer();

/** A store of an app, which records whether it was opened and closed. */
class OwnStore extends MemoryLockStore {
  readonly calls: string[] = [];

  override open(): void {
    super.open();
    if (!this.calls.includes('open')) this.calls.push('open');
  }

  override async close(): Promise<void> {
    await super.close();
    this.calls.push('close');
  }
}

@Injectable()
class Orders {
  @Locked('order:<0>', { ifBusy: 'skip' })
  async charge(id: string): Promise<string | undefined> {
    return id;
  }
}

const start = (options: RedisLockModuleOptions) =>
  startModule({ imports: [RedisLockModule.forRoot({ drainMs: 100, ...options })], providers: [Orders] });

describe('your own store', () => {
  it('has the locks of the service and of the decorators', async () => {
    const store = new OwnStore(server);
    const app = await start({ store });
    const lock = await app.get(RedisLockService).acquire('order:7');
    expect((await store.inspect('order:7')).mode).toBe('write');
    expect(await app.get(Orders).charge('7')).toBeUndefined();
    await lock.release();
    expect(await app.get(Orders).charge('7')).toBe('7');
  });

  it('is opened when the app starts, and closed when its holders have finished', async () => {
    const store = new OwnStore(server);
    const app = await start({ store });
    expect(store.calls).toEqual(['open']);
    const lock = await app.get(RedisLockService).acquire(freshKey());
    lock.signal.addEventListener('abort', () => store.calls.push('lost'));
    await app.close();
    expect(store.calls).toEqual(['open', 'lost', 'close']);
  });

  it('is made by a factory for each start of an app, with the data of the module', async () => {
    const told: LockStoreContext[] = [];
    const stores: LockStore[] = [];
    const lockModule = RedisLockModule.forRoot({
      keyPrefix: 'own:',
      keepMs: 120_000,
      store(context) {
        told.push(context);
        const store = new OwnStore(server, context);
        stores.push(store);
        return store;
      },
    });
    for (let i = 0; i < 2; i += 1) {
      const app = await startModule({ imports: [lockModule] });
      expect(await app.get(RedisLockService).withLock(freshKey(), () => 'ran')).toBe('ran');
      await app.close();
    }
    expect(new Set(stores).size).toBe(2);
    expect(told[0]).toMatchObject({ keyPrefix: 'own:', keepMs: 120_000 });
    const { clock, reporter } = told[0]!;
    expect([typeof clock.now(), typeof reporter.warn]).toEqual(['number', 'function']);
  });

  it('may be one of several modules, and come from a factory of options', async () => {
    const useFactory = async () => ({ store: new OwnStore(server, { keyPrefix: 'jobs:' }) });
    const jobs = RedisLockModule.forRootAsync({ name: 'jobs', useFactory });
    const app = await startModule({ imports: [RedisLockModule.forRoot({ store: () => new OwnStore(server) }), jobs] });
    const key = freshKey();
    const lock = await app.get<RedisLockService>(getLockServiceToken('jobs')).acquire(key);
    expect(await app.get<RedisLockService>(getLockServiceToken()).isLocked(key)).toBe(false);
    await lock.release();
  });
});

describe('your own store is refused', () => {
  it.each<[string, object, string]>([
    ['a connection', { connection: 'redis://127.0.0.1:1' }, 'either `store` or `connection`'],
    ['minReplicas', { minReplicas: 1 }, '`minReplicas` to be left out'],
    ['replicaTimeoutMs', { replicaTimeoutMs: 500 }, '`replicaTimeoutMs` to be left out'],
    ['durable', { durable: 'aof' }, '`durable` to be left out'],
    ['hashTag', { hashTag: () => 'tag' }, '`hashTag` to be left out'],
    ['a keyPrefix, since it is made already', { keyPrefix: 'own:' }, '`keyPrefix` to be left out'],
    ['keepMs, since it is made already', { keepMs: 60_000 }, '`keepMs` to be left out'],
  ])('with %s', async (_what, options, expected) => {
    const error = await rejection(start({ store: new FakeStore(), ...options }));
    expect(error).toBeInstanceOf(LockConfigurationError);
    expect(error.message).toContain(expected);
  });

  it.each<[string, unknown, string]>([
    ['lacks a method', Object.assign(new FakeStore(), { renew: undefined }), 'it lacks `renew()`.'],
    ['is a promise', Promise.resolve(new FakeStore()), 'a promise (await it in forRootAsync)'],
    ['was made by a factory and lacks a method', () => ({ clientId: 'a' }), 'the result of the factory'],
  ])('if it %s', async (_what, store, expected) => {
    const error = await rejection(start({ store: store as LockStore }));
    expect(error).toBeInstanceOf(LockConfigurationError);
    expect(error.message).toContain(expected);
  });

  it('if another module has used it', async () => {
    const store = new OwnStore(server);
    await start({ store });
    const error = await rejection(start({ store }));
    expect(error).toBeInstanceOf(LockConfigurationError);
    expect(error.message).toContain('`store: () => new MyStore()`');
  });
});

const COPY: string = '../../../lib/memory/process-memory.ts?copy';
const FIRST: string = '../../../lib/memory/process-memory.ts?first';

const memory = (options: RedisLockModuleOptions = {}) =>
  RedisLockModule.forRoot({ connection: 'memory', drainMs: 100, ...options });

async function startInMemory(options?: RedisLockModuleOptions): Promise<RedisLockService> {
  const app = await startModule({ imports: [memory(options)] });
  return app.get<RedisLockService>(getLockServiceToken(options?.name));
}

const ENVIRONMENT = process.env['NODE_ENV'];

afterEach(async () => {
  process.env['NODE_ENV'] = ENVIRONMENT;
  await closeAll();
});

describe('the first module that keeps its locks in the memory of the process', () => {
  it('reports it when it starts, and the others do not repeat it', async () => {
    const warn = jest.spyOn(Logger.prototype, 'warn').mockImplementation(() => undefined);
    // Other spec files of this process have also started modules.
    const copy = (await import(FIRST)) as typeof processMemory;
    const store: LockStoreFactory = (options) => copy.openProcessMemory(options);
    const first = (name?: string) => RedisLockModule.forRoot({ store, ...(name !== undefined && { name }) });
    await startModule({ imports: [first(), first('jobs')] });
    await startModule({ imports: [first('audit')] });
    expect(warn.mock.calls.map(([text]) => text)).toEqual([expect.stringContaining('in the memory of this process')]);
    warn.mockRestore();
  });
});

describe('locks in the memory of the process', () => {
  it('are shared by all modules with the same keyPrefix, whatever their names, and by no others', async () => {
    const [one, other] = [await startInMemory(), await startInMemory()];
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
    const lock = await (await startInMemory()).acquire(key);
    expect(await other.get(RedisLockService).tryAcquire(key)).toBeNull();
    await lock.release();
  });

  it('are replaced in a test by useMemoryLocks', async () => {
    const app = await useMemoryLocks(Test.createTestingModule({ imports: [memory()] })).compile();
    await app.init();
    const key = freshKey();
    const lock = await app.get(RedisLockService).acquire(key);
    expect(await (await startInMemory()).isLocked(key)).toBe(false);
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
    const error = await rejection(startInMemory(options));
    expect(error).toBeInstanceOf(LockConfigurationError);
    expect(error.message).toContain(`Expected \`${name}\` to be`);
  });

  it('as a master of a quorum', async () => {
    const error = await rejection(
      startInMemory({ connection: ['redis://127.0.0.1:1', 'memory', 'redis://127.0.0.1:2'] }),
    );
    expect(error).toBeInstanceOf(LockConfigurationError);
    expect(error.message).toContain("Expected `connection[1]` to be one master of a quorum, got 'memory'");
  });

  it('where NODE_ENV is production, unless that is allowed', async () => {
    process.env['NODE_ENV'] = 'production';
    const error = await rejection(startInMemory());
    expect(error).toBeInstanceOf(LockConfigurationError);
    expect(error.message).toContain('`memoryInProduction: true`');
    expect(await (await startInMemory({ memoryInProduction: true })).withLock(freshKey(), () => 'ran')).toBe('ran');
  });
});
