import 'reflect-metadata';
import { EventEmitter } from 'node:events';
import { Injectable, Module, type OnModuleInit, type Provider, type Type } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { Test, type TestingModule } from '@nestjs/testing';
import {
  InjectLockService,
  LockConfigurationError,
  Locked,
  RedisLockModule,
  RedisLockService,
} from '../../../lib/index.js';
import { RedisLockTestingModule } from '../../../lib/testing/index.js';
import { eventually } from '../../support/waiting/eventually.js';
import { ownRedis } from '../../support/redis/own-redis.js';
import { closeAll, closeLater, freshKey, openAdmin, startModule } from '../../support/apps/lock-app.js';
import { Base, expectRefused, NONE } from '../support/places-by-hand.js';
import { rejection } from '../../support/waiting/rejection.js';

afterEach(closeAll);

class Failing implements OnModuleInit {
  onModuleInit(): void {
    throw new Error('the start fails');
  }
}

/** Uses a lock while the app starts. */
@Injectable()
class Early extends Base implements OnModuleInit {
  result = '';

  async onModuleInit(): Promise<void> {
    this.result = await this.run('early');
  }
}

/** The test's own Redis, and its number of connections without the one that asks. */
async function setUp() {
  const { url, admin } = await ownRedis();
  const connections = async (): Promise<number> =>
    String(await admin.client('LIST'))
      .trim()
      .split('\n').length - 1;
  const imports = [RedisLockModule.forRoot({ connection: url, drainMs: 100 })];
  const build = async (...providers: Provider[]): Promise<TestingModule> =>
    closeLater(await Test.createTestingModule({ imports, providers }).compile());
  return { url, connections, imports, build };
}

describe('an app whose start fails in onModuleInit of another module', () => {
  it('leaves no connection and no module, so that the next app locks objects built by hand', async () => {
    const { connections, imports, build } = await setUp();
    for (let i = 0; i < 3; i += 1) {
      expect((await rejection((await build(Failing)).init())).message).toBe('the start fails');
    }
    @Module({ imports, providers: [Failing] })
    class AppModule {}
    const starting = NestFactory.createApplicationContext(AppModule, { abortOnError: false, logger: false });
    expect((await rejection(starting)).message).toBe('the start fails');
    expect(await connections()).toBe(0);
    const service = new Base();
    await expectRefused((key) => service.run(key), NONE);
    await startModule({ imports });
    expect(await service.run('7')).toBe('base:7');
    await eventually(async () => (await connections()) === 2);
  });

  it('leaves no connection that a lock has used, once it is closed', async () => {
    const { connections, imports, build } = await setUp();
    const app = await build(Early, { provide: Failing, inject: [Early], useFactory: () => new Failing() });
    await rejection(app.init());
    expect(app.get(Early).result).toBe('base:early');
    await app.close();
    await eventually(async () => (await connections()) === 0);
    const service = new Base();
    await expectRefused((key) => service.run(key), NONE);
    await startModule({ imports });
    expect(await service.run('7')).toBe('base:7');
  });
});

describe('an app that starts', () => {
  it('has locks in onModuleInit of other modules, even for objects that Nest did not build', async () => {
    const { imports } = await setUp();
    const byHand = { provide: 'by hand', useFactory: () => new Early() };
    const app = await startModule({ imports, providers: [Early, byHand] });
    expect([app.get(Early).result, app.get<Early>('by hand').result]).toEqual(['base:early', 'base:early']);
  });
});

describe('an app that is built and never started', () => {
  it('has no connection until a lock is used, and none once it is closed', async () => {
    const { connections, build } = await setUp();
    const app = await build(Base);
    expect(await connections()).toBe(0);
    await expectRefused((key) => new Base().run(key), NONE);
    expect(await app.get(Base).run('7')).toBe('base:7');
    expect(await app.get(RedisLockService).isLocked(freshKey())).toBe(false);
    await app.close();
    await eventually(async () => (await connections()) === 0);
  });

  it('leaves no listener on a given client', async () => {
    const { url } = await setUp();
    const client = openAdmin(url);
    const before = listenersOf(client);
    const imports = [RedisLockModule.forRoot({ connection: client })];
    for (let i = 0; i < 3; i += 1) await Test.createTestingModule({ imports }).compile();
    expect(listenersOf(client)).toEqual(before);
  });
});

describe('an app whose test replaces the service by a mock', () => {
  it('closes, and leaves no connection', async () => {
    const { connections, imports } = await setUp();
    const mock = { withLock: (_key: string, work: () => unknown) => work() };
    const app = await startModule({ imports }, (builder) => builder.overrideProvider(RedisLockService).useValue(mock));
    await eventually(async () => (await connections()) === 2);
    await app.close();
    await eventually(async () => (await connections()) === 0);
  });
});

const listenersOf = (client: EventEmitter): Record<string, number> =>
  Object.fromEntries(client.eventNames().map((name) => [String(name), client.listenerCount(name)]));

/** The output of `nest generate service cats`, with locks. */
@Injectable()
class CatsService {
  @Locked('cats')
  async findAll(): Promise<string> {
    return 'all cats';
  }
}

@Injectable()
class InjectingByToken {
  constructor(@InjectLockService() readonly locks: RedisLockService) {}
}

@Injectable()
class LockedElsewhere {
  @Locked('cats', { connection: 'jobs' })
  async findAll(): Promise<void> {}
}

@Injectable()
class Both extends CatsService {
  constructor(@InjectLockService() readonly locks: RedisLockService) {
    super();
  }
}

const PLACES: readonly (readonly [string, Provider])[] = [
  ['has locked methods', CatsService],
  ['injects the service by its token', InjectingByToken],
  ['does both', Both],
];

describe('a generated spec whose module has only the class under test, which', () => {
  it.each(PLACES)('%s, names what to import, and what to import in a test', async (_what, provider) => {
    const { message } = await rejection(Test.createTestingModule({ providers: [provider] }).compile());
    expect(message).toMatch(/RedisLockModule\.forRoot\(\)/);
    expect(message).toMatch(/RedisLockTestingModule\.forRoot\(\)/);
    expect(message).toMatch(/nestjs-redis-lock\/testing/);
  });

  it.each([
    [CatsService, 'LockInterceptor (import RedisLockModule.forRoot() to use @Locked)'],
    [LockedElsewhere, 'LockInterceptor "jobs" (import RedisLockModule.forRoot() to use @Locked)'],
    [InjectingByToken, 'RedisLockService (import RedisLockModule.forRoot() to use it)'],
  ])('is %o, names what is missing', async (provider, text) => {
    await expect(Test.createTestingModule({ providers: [provider] }).compile()).rejects.toThrow(text);
  });

  it('passes with what the message recommends', async () => {
    const imports = [RedisLockTestingModule.forRoot()];
    const app = await startModule({ imports, providers: [Both] });
    expect(await app.get(Both).findAll()).toBe('all cats');
  });
});

@Injectable()
class InjectingByClass {
  constructor(readonly locks: RedisLockService) {}
}

describe('a bare import of the module', () => {
  const TOLD =
    /^A module imports RedisLockModule directly.* Call forRoot\(\) once, in the root module: .*RedisLockTestingModule\.forRoot\(\)/;

  async function expectTold(type: Type): Promise<void> {
    const error = await rejection(NestFactory.createApplicationContext(type, { abortOnError: false, logger: false }));
    expect(error).toBeInstanceOf(LockConfigurationError);
    expect(error.message).toMatch(TOLD);
  }

  it('fails with the advice to call forRoot() once, in the root module', async () => {
    @Module({ imports: [RedisLockModule] })
    class AppModule {}

    await expectTold(AppModule);
  });

  it.each([...PLACES, ['injects the service by its class', InjectingByClass] as const])(
    'fails with that advice, and does not name a class that %s',
    async (_what, provider) => {
      @Module({ imports: [RedisLockModule], providers: [provider] })
      class OneModule {}
      await expectTold(OneModule);

      @Module({ imports: [OneModule] })
      class RootModule {}
      await expectTold(RootModule);

      @Module({ providers: [provider] })
      class CatsModule {}
      @Module({ imports: [RedisLockModule, CatsModule] })
      class AppModule {}
      await expectTold(AppModule);
    },
  );

  it('fails with the same advice for the testing module', async () => {
    const error = await rejection(Test.createTestingModule({ imports: [RedisLockTestingModule] }).compile());
    expect(error.message).toMatch(TOLD);
  });
});
