import 'reflect-metadata';
import { Injectable, Module, type OnModuleInit } from '@nestjs/common';
import { LazyModuleLoader, ModuleRef } from '@nestjs/core';
import { Test } from '@nestjs/testing';
import { LockConfigurationError, RedisLockModule } from '../../../lib/index.js';
import { redisUrl } from '../../support/topologies/topology.js';
import { rejection } from '../../support/waiting/rejection.js';
import { closeAll, closeLater, freshKey, startApp, startModule } from '../../support/apps/lock-app.js';
import {
  Base,
  expectRefused,
  hasRun,
  isLockedBy,
  NONE,
  SEVERAL,
  start,
  startTwo,
  withoutThis,
} from '../support/places-by-hand.js';

@Injectable()
class Builder {
  constructor(readonly moduleRef: ModuleRef) {}
}

afterEach(closeAll);

describe('an object that Nest did not build', () => {
  it.each([
    ['useFactory', { provide: Base, useFactory: () => new Base() }],
    ['an async useFactory', { provide: Base, useFactory: async () => new Base() }],
    ['useValue', { provide: Base, useValue: new Base() }],
  ])(
    'is locked by the only running module when made by %s, and refused when another module runs',
    async (_what, provider) => {
      const app = await start([provider], `${freshKey()}:`);
      const service = app.app.get(Base);
      expect(await isLockedBy(service, app)).toBe(true);
      await start();
      await expectRefused((key) => service.run(key), SEVERAL);
    },
  );

  it('is locked by the only running module when made with new, and refused without one', async () => {
    const service = new Base();
    await expectRefused((key) => service.run(key), NONE);
    const { app } = await start();
    expect(await service.run('7')).toBe('base:7');
    await app.close();
    await expectRefused((key) => service.run(key), NONE);
  });

  it('is refused when two modules run, and when the only one has another connection', async () => {
    const service = new Base();
    await startApp({ name: 'jobs' });
    await expectRefused((key) => service.run(key), NONE);
    await start();
    expect(await service.run('7')).toBe('base:7');
    await start();
    await expectRefused((key) => service.run(key), SEVERAL);
  });
});

describe('an object that Nest built', () => {
  it('uses the lock of its own module when another one runs: a class, or its alias (useExisting)', async () => {
    const alias = { provide: 'alias', useExisting: Base };
    const own = await start([Base, alias], `${freshKey()}:`);
    const other = await start([Base], `${freshKey()}:`);
    expect(own.app.get('alias')).toBe(own.app.get(Base));
    for (const service of [own.app.get<Base>('alias'), own.app.get(Base)]) {
      expect([await isLockedBy(service, own), await isLockedBy(service, other)]).toEqual([true, false]);
    }
  });

  it('uses the lock of its own module when another one runs: moduleRef.create() or moduleRef.resolve()', async () => {
    const own = await start([Base, Builder], `${freshKey()}:`);
    await start();
    const { moduleRef } = own.app.get(Builder);
    expect(await isLockedBy(await moduleRef.create(Base), own)).toBe(true);
    expect(await isLockedBy(await moduleRef.resolve(Base), own)).toBe(true);
  });

  it('uses the lock of its own module when another one runs: a lazily loaded module', async () => {
    @Module({ providers: [Base] })
    class LazyModule {}

    const own = await start([], `${freshKey()}:`);
    await start();
    const moduleRef = await own.app.get(LazyModuleLoader).load(() => LazyModule);
    expect(await isLockedBy(moduleRef.get(Base), own)).toBe(true);
  });

  it('cannot be built by moduleRef.create() where the module is not imported', async () => {
    const imports = [RedisLockModule.forRoot({ connection: redisUrl(), isGlobal: false })];
    @Module({ imports })
    class LockingModule {}

    const app = await startModule({ imports: [LockingModule], providers: [Builder] });
    await expect(app.get(Builder).moduleRef.create(Base)).rejects.toThrow(/LockInterceptor \(import RedisLockModule/);
  });

  it('prevents the start of the app when it freezes itself before it gets its lock', async () => {
    class Frozen extends Base {
      constructor() {
        super();
        Object.freeze(this);
      }
    }
    const imports = [RedisLockModule.forRoot({ connection: redisUrl() })];
    const compiling = Test.createTestingModule({ imports, providers: [Frozen] }).compile();
    await expect(compiling).rejects.toThrow(/LockInterceptor/);
  });
});

const methodsOf = (service: Base): object => {
  const { run, named, seenBy } = withoutThis(service);
  return { run, named, seenBy };
};

const copies: Record<string, (service: Base) => Base> = {
  'Object.create() of an object': (service) => Object.create(service) as Base,
  'a spread copy that is given the methods': (service) => ({ ...(service as object), ...methodsOf(service) }) as Base,
  'Object.assign() to a new object': (service) => Object.assign(new Base(), service),
  'a frozen object': (service) => Object.freeze(service),
  'a proxy of an object': (service) => new Proxy(service, {}),
};

describe('a copy of an object that Nest built', () => {
  it.each(Object.keys(copies))('made as %s uses the lock of the same module when another one runs', async (how) => {
    const [own, other] = await startTwo();
    const copy = copies[how]!(own.app.get(Base));
    expect([await isLockedBy(copy, own), await isLockedBy(copy, other)]).toEqual([true, false]);
    expect(await copy.named('7')).toBe('base:7');
  });

  it('is refused when it copied nothing and another module runs, like each object that Nest did not build', async () => {
    await startTwo();
    const bare = Object.create(Base.prototype) as Base;
    await expectRefused((key) => bare.run(key), SEVERAL);
  });

  it('shows nothing of the lock in JSON or in a loop over its properties', async () => {
    const service = (await start([Base])).app.get(Base);
    expect(JSON.stringify(service)).toBe('{"name":"base"}');
    expect(Object.keys(service)).toEqual(['name']);
  });
});

describe('a RedisLockModule that is loaded lazily', () => {
  it('works, and is closed by its own onApplicationShutdown(), since Nest calls no hooks of lazy modules', async () => {
    @Module({ imports: [RedisLockModule.forRoot({ connection: redisUrl(), drainMs: 100 })], providers: [Base] })
    class LazyModule {}

    const app = await startModule({});
    const moduleRef = await app.get(LazyModuleLoader).load(() => LazyModule);
    const lockModule = moduleRef.get(RedisLockModule, { strict: false });
    closeLater({ close: () => lockModule.onApplicationShutdown() });
    const key = freshKey();
    expect(await moduleRef.get(Base).run(key)).toBe(`base:${key}`);
    await app.close();
    await lockModule.onApplicationShutdown();
    await expect(moduleRef.get(Base).run(key)).rejects.toMatchObject({ code: 'LOCK_SHUTDOWN' });
  });
});

describe('a method without its object', () => {
  it('is locked by the only running module, and refused with none or two', async () => {
    const { run } = withoutThis(new Base());
    await expectRefused((key) => run(key), NONE);
    const { app } = await start([Base]);
    const { run: own } = withoutThis(app.get(Base));
    expect([await run('7'), await own('8')]).toEqual(['base:7', 'base:8']);
    await start();
    await expectRefused((key) => own(key), SEVERAL);
  });

  it('has no `this`: a key function or work that reads it rejects and leaves nothing locked', async () => {
    const { locks } = await start();
    const { named } = withoutThis(new Base());
    await expect(named('7')).rejects.toBeInstanceOf(TypeError);
    expect(await locks.isLocked('base:7')).toBe(false);
  });
});

describe('a call while the app is being built', () => {
  it('is refused in the constructor, and locked in onModuleInit', async () => {
    const keys = [freshKey(), freshKey()] as const;

    @Injectable()
    class Eager extends Base implements OnModuleInit {
      readonly early = rejection(this.run(keys[0]));
      late = '';

      async onModuleInit(): Promise<void> {
        this.late = await this.run(keys[1]);
      }
    }

    const eager = (await start([Eager])).app.get(Eager);
    expect(await eager.early).toBeInstanceOf(LockConfigurationError);
    expect([hasRun(keys[0]), eager.late]).toEqual([false, `base:${keys[1]}`]);
  });

  it('is locked in onModuleInit, also when the module is not global or another app runs', async () => {
    const seen: unknown[] = [];

    @Injectable()
    class Eager extends Base implements OnModuleInit {
      async onModuleInit(): Promise<void> {
        seen.push(await this.run('7'));
      }
    }
    const imports = [RedisLockModule.forRoot({ connection: redisUrl(), isGlobal: false })];
    @Module({ imports, providers: [Eager] })
    class FeatureModule {}

    await start();
    await startModule({ imports: [FeatureModule] });
    expect(seen).toEqual(['base:7']);
  });
});
