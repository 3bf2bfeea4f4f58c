import 'reflect-metadata';
import { createHash } from 'node:crypto';
import { inspect } from 'node:util';
import { Injectable, Module } from '@nestjs/common';
import { LazyModuleLoader, REQUEST } from '@nestjs/core';
import { Test } from '@nestjs/testing';
import {
  createLockScripts,
  getLockServiceToken,
  InjectLockService,
  LOCK_SCRIPTS,
  LockConfigurationError,
  Locked,
  LockInterceptor,
  RedisLockModule,
  type RedisLockModuleOptions,
  RedisLockService,
} from '../../../lib/index.js';
import { redisUrl } from '../../support/topologies/topology.js';
import { gate } from '../../support/waiting/gate.js';
import { rejection, thrownBy } from '../../support/waiting/rejection.js';
import { closeAll, freshKey, openAdmin, startModule } from '../../support/apps/lock-app.js';
import { LOCK_STORE, LOCKER } from '../../../lib/redis-lock.tokens.js';
import { FakeStore } from '../../support/core/fake-store.js';

afterEach(closeAll);

const options = (more: RedisLockModuleOptions = {}): RedisLockModuleOptions => ({
  connection: redisUrl(),
  drainMs: 100,
  ...more,
});

@Module({ imports: [RedisLockModule.forRoot(options())] })
class BillingModule {}

@Module({ imports: [RedisLockModule.forRootAsync({ useFactory: () => options() })] })
class StockModule {}

describe('a second module of one name', () => {
  it('does not start, and the error names the importers and what to do', async () => {
    const error = await rejection(startModule({ imports: [BillingModule, StockModule] }));
    expect(error).toBeInstanceOf(LockConfigurationError);
    expect(error.message).toBe(
      'RedisLockModule is registered 2 times without a name (by BillingModule, StockModule). Call forRoot() once, in the ' +
        'root module, because it is global; or share its result; or give each its own `name`, and name it in the ' +
        "decorators: `connection: '<name>'`.",
    );
  });

  it('is refused for each name separately', async () => {
    const named = () => RedisLockModule.forRoot(options({ name: 'jobs' }));
    await expect(startModule({ imports: [named(), named()] })).rejects.toThrow('is registered 2 times as "jobs"');
    const one = await startModule({ imports: [BillingModule, named()] });
    expect(one.get<RedisLockService>(getLockServiceToken('jobs')).connection).toBe('jobs');
  });

  it('is refused when it is loaded later', async () => {
    const app = await startModule({ imports: [BillingModule] });
    const load = app.get(LazyModuleLoader).load(() => StockModule);
    await expect(load).rejects.toBeInstanceOf(LockConfigurationError);
  });

  it('leaves no connection behind', async () => {
    const connectionName = freshKey('twice').replaceAll('-', '');
    const { port, hostname: host } = new URL(redisUrl());
    const twice = () => RedisLockModule.forRoot(options({ connection: { host, port: Number(port), connectionName } }));
    await expect(startModule({ imports: [twice(), twice()] })).rejects.toBeInstanceOf(LockConfigurationError);
    expect(String(await openAdmin().client('LIST'))).not.toContain(connectionName);
  });

  it('is not created when the same definition is imported twice', async () => {
    const shared = RedisLockModule.forRoot(options());
    @Module({ imports: [shared] })
    class OrdersModule {}
    const app = await startModule({ imports: [OrdersModule, shared] });
    expect(await app.get(RedisLockService).isLocked(freshKey())).toBe(false);
  });
});

it.each(['name', 'isGlobal'])(
  '`%s` in the result of the factory is refused, since it has no effect there',
  async (extra) => {
    const useFactory = () => ({ ...options(), [extra]: extra === 'name' ? 'jobs' : false });
    const text = `forRootAsync({ ${extra}: …, useFactory })`;
    await expect(startModule({ imports: [RedisLockModule.forRootAsync({ useFactory })] })).rejects.toThrow(text);
  },
);

it.each<[string, object, string]>([
  [
    'an option of the module next to the factory',
    { useFactory: options, keyPrefix: 'a:' },
    'Unknown option `keyPrefix`',
  ],
  ['an unknown option', { useFactroy: options }, 'Unknown option `useFactroy`'],
  ['no source of the options', { name: 'jobs' }, 'one of useFactory, useClass, useExisting, got none of them.'],
  ['two sources', { useFactory: options, useClass: class {} }, 'got useFactory and useClass.'],
  ['options in place of a factory', { useFactory: options() }, '`useFactory` to be a function'],
])('%s of forRootAsync is refused, since Nest would ignore it', (_what, given, text) => {
  const error = thrownBy(() => RedisLockModule.forRootAsync(given));
  expect(error).toBeInstanceOf(LockConfigurationError);
  expect(error.message).toContain(text);
});

it('request-scoped options are refused, since nothing would close their connections', async () => {
  const useFactory = () => options();
  const imports = [RedisLockModule.forRootAsync({ inject: [REQUEST], useFactory })];
  const module = await Test.createTestingModule({ imports }).compile();
  const made = module.resolve(RedisLockService);
  await expect(made).rejects.toThrow(/depend on a request-scoped provider/);
});

describe('app.get(RedisLockService)', () => {
  it('throws where there is only a named module', async () => {
    const app = await startModule({ imports: [RedisLockModule.forRoot(options({ name: 'jobs' }))] });
    expect(() => app.get(RedisLockService)).toThrow(/RedisLockService/);
  });
});

describe('two apps in one process', () => {
  @Injectable()
  class Work {
    readonly running = gate();
    readonly end = gate();

    @Locked('work:<0>', { ifBusy: 'throw' })
    async run(_key: string): Promise<void> {
      this.running.open();
      await this.end.opened;
    }
  }

  const start = (keyPrefix: string) =>
    startModule({ imports: [RedisLockModule.forRoot(options({ keyPrefix }))], providers: [Work] });

  it('never use the module, the locks or the events of each other', async () => {
    const key = freshKey();
    const apps = await Promise.all([start('a:'), start('b:')]);
    const [a, b] = apps.map((app) => app.get(Work)) as [Work, Work];
    const heard: string[] = [];
    for (const [i, app] of apps.entries()) {
      app.get(RedisLockService).events.on('acquired', ({ where }) => heard.push(`${i} ${where}`));
    }
    const [first, second] = [a.run(key), b.run(key)];
    await Promise.all([a.running.opened, b.running.opened]);
    expect(await Promise.all(apps.map((app) => app.get(RedisLockService).isLocked(`work:${key}`)))).toEqual([
      true,
      true,
    ]);
    expect(heard.toSorted()).toEqual(['0 Work.run', '1 Work.run']);
    a.end.open();
    await first;
    await apps[0].close();
    expect(await apps[1].get(RedisLockService).isLocked(`work:${key}`)).toBe(true);
    b.end.open();
    await second;
  });
});

describe('LOCK_SCRIPTS', () => {
  const marked = () => {
    const scripts = createLockScripts();
    return { ...scripts, inspect: `${scripts.inspect}\n-- replaced` };
  };

  it.each([
    [
      'overridden by a test',
      () =>
        Test.createTestingModule({ imports: [RedisLockModule.forRoot({ connection: redisUrl() })] })
          .overrideProvider(LOCK_SCRIPTS)
          .useFactory({ factory: marked }),
    ],
    [
      'replaced in the definition of the module',
      () => {
        const lockModule = RedisLockModule.forRoot({ connection: redisUrl() });
        const providers = [...(lockModule.providers ?? []), { provide: LOCK_SCRIPTS, useFactory: marked }];
        return Test.createTestingModule({ imports: [{ ...lockModule, providers }] });
      },
    ],
  ])('%s are the scripts that run', async (_how, builder) => {
    const admin = openAdmin();
    const app = await (await builder().compile()).init();
    await app.get(RedisLockService).inspect(freshKey());
    const sha1 = createHash('sha1').update(marked().inspect).digest('hex');
    expect(await admin.script('EXISTS', sha1)).toEqual([1]);
    await app.close();
  });

  it.each([
    ['that is not a text', { ...createLockScripts(), inspect: { text: 'return 1', sha1: '' } }, 'got object'],
    ['that is missing', { inspect: 'return 1' }, 'got undefined'],
  ])('with a script %s are refused before anything is sent', async (_what, scripts, text) => {
    const builder = Test.createTestingModule({
      imports: [RedisLockModule.forRoot({ connection: 'redis://127.0.0.1:1' })],
    });
    const compiled = builder.overrideProvider(LOCK_SCRIPTS).useValue(scripts).compile();
    const error = await rejection(compiled);
    expect(error).toBeInstanceOf(LockConfigurationError);
    expect(error.message).toMatch(new RegExp(`^LOCK_SCRIPTS: expected .*${text}.*createLockScripts\\(\\)`));
  });
});

const optionsAt = (keyPrefix = 'wiring:'): RedisLockModuleOptions => ({ connection: redisUrl(), keyPrefix });

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
    return optionsAt(this.keyPrefix);
  }
}

@Module({ providers: [Settings], exports: [Settings] })
class SettingsModule {}

describe('the options of the module', () => {
  it.each([
    ['forRoot', () => RedisLockModule.forRoot(optionsAt('settings:'))],
    ['useFactory', () => RedisLockModule.forRootAsync({ useFactory: () => optionsAt('settings:') })],
    ['an async useFactory', () => RedisLockModule.forRootAsync({ useFactory: async () => optionsAt('settings:') })],
    [
      'useFactory with inject and imports',
      () =>
        RedisLockModule.forRootAsync({
          imports: [SettingsModule],
          inject: [Settings],
          useFactory: (settings: Settings) => optionsAt(settings.keyPrefix),
        }),
    ],
    ['useClass', () => RedisLockModule.forRootAsync({ useClass: Settings })],
    ['useExisting', () => RedisLockModule.forRootAsync({ imports: [SettingsModule], useExisting: Settings })],
  ])('come from %s', async (_how, lockModule) => {
    const app = await startModule({ imports: [lockModule()] });
    const same = await startModule({ imports: [RedisLockModule.forRoot(optionsAt('settings:'))] });
    const other = await startModule({ imports: [RedisLockModule.forRoot(optionsAt('other:'))] });
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
    const app = await startModule({ imports: [RedisLockModule.forRoot({ ...optionsAt(), ...extra }), NeedyModule] });
    expect(app.get(Needy, { strict: false }).locks).toBe(app.get(RedisLockService));
  });

  it.each([
    ['forRoot', () => RedisLockModule.forRoot({ ...optionsAt(), isGlobal: false })],
    ['forRootAsync', () => RedisLockModule.forRootAsync({ isGlobal: false, useFactory: () => optionsAt() })],
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

describe('a named module next to the default one', () => {
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
  }

  const named = () => RedisLockModule.forRoot({ ...optionsAt('jobs:'), name: 'jobs' });
  const unnamed = () => RedisLockModule.forRoot(optionsAt('default:'));

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

  it('also takes its name with forRootAsync', async () => {
    const lockModule = RedisLockModule.forRootAsync({ name: 'jobs', useFactory: () => optionsAt('jobs:') });
    const app = await startModule({ imports: [lockModule, unnamed()], providers: [Jobs] });
    expect(await app.get(Jobs).where(freshKey())).toEqual([true, false]);
  });
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
