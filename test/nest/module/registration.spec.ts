import 'reflect-metadata';
import { createHash } from 'node:crypto';
import { Injectable, Module } from '@nestjs/common';
import { LazyModuleLoader, REQUEST } from '@nestjs/core';
import { Test } from '@nestjs/testing';
import {
  createLockScripts,
  getLockServiceToken,
  LOCK_SCRIPTS,
  Locked,
  LockConfigurationError,
  RedisLockModule,
  type RedisLockModuleOptions,
  RedisLockService,
} from '../../../lib/index.js';
import { redisUrl } from '../../support/topologies/topology.js';
import { gate } from '../../support/waiting/gate.js';
import { rejection } from '../../support/waiting/rejection.js';
import { closeAll, freshKey, openAdmin, startModule } from '../../support/apps/lock-app.js';

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
        'root module, since it is global; or share what it returned; or give each its own `name`, and tell the ' +
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
    ['that is no text', { ...createLockScripts(), inspect: { text: 'return 1', sha1: '' } }, 'got object'],
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
