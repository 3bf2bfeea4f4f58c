import { inspect } from 'node:util';
import { Inject, Injectable, Module } from '@nestjs/common';
import { Test } from '@nestjs/testing';
import {
  createLockScripts,
  getLockServiceToken,
  InjectLockService,
  LOCK_SCRIPTS,
  LockInterceptor,
  Locked,
  type LockScripts,
  RedisLockModule,
  type RedisLockModuleOptions,
  RedisLockService,
} from '../../../lib/index.js';
import { LOCKER, LOCK_STORE } from '../../../lib/redis-lock.tokens.js';
import { FakeStore } from '../../support/core/fake-store.js';
import { closeAll, freshKey, startModule } from '../../support/apps/lock-app.js';
import { redisUrl } from '../../support/topologies/topology.js';

const options = (keyPrefix = 'wiring:'): RedisLockModuleOptions => ({ connection: redisUrl(), keyPrefix });

/** Where the locks of a service really are. */
async function worksUnder(locks: RedisLockService, other: RedisLockService, key = freshKey()): Promise<boolean> {
  const lock = await locks.acquire(key);
  const seen = await other.isLocked(key);
  await lock.release();
  return seen;
}

@Injectable()
class Settings {
  readonly keyPrefix = 'settings:';

  createRedisLockOptions(): RedisLockModuleOptions {
    return options(this.keyPrefix);
  }
}

@Module({ providers: [Settings], exports: [Settings] })
class SettingsModule {}

afterEach(closeAll);

describe('the options of the module', () => {
  it.each([
    ['forRoot', () => RedisLockModule.forRoot(options('settings:'))],
    ['useFactory', () => RedisLockModule.forRootAsync({ useFactory: () => options('settings:') })],
    ['an async useFactory', () => RedisLockModule.forRootAsync({ useFactory: async () => options('settings:') })],
    [
      'useFactory with inject and imports',
      () =>
        RedisLockModule.forRootAsync({
          imports: [SettingsModule],
          inject: [Settings],
          useFactory: (settings: Settings) => options(settings.keyPrefix),
        }),
    ],
    ['useClass', () => RedisLockModule.forRootAsync({ useClass: Settings })],
    ['useExisting', () => RedisLockModule.forRootAsync({ imports: [SettingsModule], useExisting: Settings })],
  ])('come from %s', async (_how, lockModule) => {
    const app = await startModule({ imports: [lockModule()] });
    const same = await startModule({ imports: [RedisLockModule.forRoot(options('settings:'))] });
    const other = await startModule({ imports: [RedisLockModule.forRoot(options('other:'))] });
    expect(await worksUnder(app.get(RedisLockService), same.get(RedisLockService))).toBe(true);
    expect(await worksUnder(app.get(RedisLockService), other.get(RedisLockService))).toBe(false);
  });
});

@Injectable()
class Needy {
  constructor(readonly locks: RedisLockService) {}
}

@Module({ providers: [Needy] })
class NeedyModule {}

@Module({ imports: [RedisLockModule.forRoot({ connection: redisUrl(), isGlobal: false })], exports: [RedisLockModule] })
class LocalModule {}

@Module({ imports: [LocalModule], providers: [Needy] })
class ImportingModule {}

describe('isGlobal', () => {
  it.each([
    ['left out', {}],
    ['true', { isGlobal: true }],
    ['undefined', { isGlobal: undefined }],
  ])('%s lets every module inject the service', async (_what, extra) => {
    const app = await startModule({ imports: [RedisLockModule.forRoot({ ...options(), ...extra }), NeedyModule] });
    expect(app.get(Needy, { strict: false }).locks).toBe(app.get(RedisLockService));
  });

  it.each([
    ['forRoot', () => RedisLockModule.forRoot({ ...options(), isGlobal: false })],
    ['forRootAsync', () => RedisLockModule.forRootAsync({ isGlobal: false, useFactory: () => options() })],
  ])('false, given to %s, keeps it to the modules that import it', async (_how, lockModule) => {
    const definition = lockModule();
    expect(definition.global).toBe(false);
    const outside = Test.createTestingModule({ imports: [definition, NeedyModule] })
      .overrideProvider(LOCK_STORE)
      .useValue(new FakeStore());
    await expect(outside.compile()).rejects.toThrow(/RedisLockService at index \[0\] is available in the NeedyModule/);
    const app = await startModule({ imports: [ImportingModule] });
    expect(app.get(Needy, { strict: false }).locks).toBeInstanceOf(RedisLockService);
  });
});

describe('a named module beside the default one', () => {
  class Jobs {
    constructor(
      @InjectLockService() readonly locks: RedisLockService,
      @InjectLockService('jobs') readonly jobLocks: RedisLockService,
      readonly byClass: RedisLockService,
    ) {}

    @Locked('nightly:<0>', { connection: 'jobs' })
    async where(key: string): Promise<boolean[]> {
      return [await this.jobLocks.isLocked(`nightly:${key}`), await this.locks.isLocked(`nightly:${key}`)];
    }

    @Locked('<0>')
    async nested(key: string): Promise<string> {
      return this.jobLocks.withLock(key, () => 'both held');
    }
  }

  const named = () => RedisLockModule.forRoot({ ...options('jobs:'), name: 'jobs' });
  const unnamed = () => RedisLockModule.forRoot(options('default:'));

  Injectable()(Jobs);

  it.each([
    ['after', () => [unnamed(), named()]],
    ['before', () => [named(), unnamed()]],
  ])('has its own service and locks when imported %s it', async (_order, imports) => {
    const app = await startModule({ imports: imports(), providers: [Jobs] });
    const jobs = app.get(Jobs);
    expect(jobs.locks).toBe(app.get(getLockServiceToken()));
    expect(jobs.jobLocks).toBe(app.get(getLockServiceToken('jobs')));
    const { locks, byClass, jobLocks } = jobs;
    expect([locks, byClass, jobLocks].map(({ connection }) => connection)).toEqual([undefined, undefined, 'jobs']);
    expect(await jobs.where(freshKey())).toEqual([true, false]);
  });

  it('has separate locks, so that a nested call may hold the same key there', async () => {
    const app = await startModule({ imports: [unnamed(), named()], providers: [Jobs] });
    expect(await app.get(Jobs).nested(freshKey())).toBe('both held');
  });

  it('takes its name with forRootAsync, too', async () => {
    const lockModule = RedisLockModule.forRootAsync({ name: 'jobs', useFactory: () => options('jobs:') });
    const app = await startModule({ imports: [lockModule, unnamed()], providers: [Jobs] });
    expect(await app.get(Jobs).where(freshKey())).toEqual([true, false]);
  });
});

it('LOCK_SCRIPTS can be injected by a module that replaces them', async () => {
  @Injectable()
  class Scripts {
    constructor(@Inject(LOCK_SCRIPTS) readonly scripts: LockScripts) {}
  }
  const app = await startModule({ imports: [RedisLockModule.forRoot(options())], providers: [Scripts] });
  expect(app.get(Scripts).scripts).toHaveProperty('operate', createLockScripts().operate);
});

describe('what an app logs of the module', () => {
  it('has no password: neither as JSON nor as Node prints it', async () => {
    const url = new URL(redisUrl());
    const connection = { host: url.hostname, port: Number(url.port), password: 'hush-hush' };
    const app = await startModule({ imports: [RedisLockModule.forRoot({ connection, keyPrefix: 'wiring:' })] });
    for (const token of [RedisLockService, RedisLockModule, LockInterceptor, LOCKER, LOCK_STORE]) {
      const shown = inspect(app.get(token, { strict: false }), { depth: 20 });
      expect(shown).not.toContain('hush-hush');
    }
    expect(JSON.stringify(app.get(RedisLockService))).toBe('{}');
  });
});
