import 'reflect-metadata';
import { Controller, Get, Injectable, Module, type Provider, type Type } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { Test } from '@nestjs/testing';
import {
  InjectLockService,
  LockConfigurationError,
  Locked,
  RedisLockModule,
  RedisLockService,
} from '../../../lib/index.js';
import { RedisLockTestingModule } from '../../../lib/testing/index.js';
import { redisUrl } from '../../support/topologies/topology.js';
import { rejection } from '../../support/waiting/rejection.js';
import { closeAll, startModule } from '../../support/apps/lock-app.js';

/** As `nest generate service cats` leaves it, with locks. */
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

@Controller('cats')
class CatsController {
  constructor(private readonly cats: CatsService) {}

  @Get()
  @Locked('cats')
  async findAll(): Promise<string> {
    return this.cats.findAll();
  }
}

const PLACES: readonly (readonly [string, Provider])[] = [
  ['has locked methods', CatsService],
  ['injects the service by its token', InjectingByToken],
  ['does both', Both],
];

afterEach(closeAll);

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

  it('is a controller, names the same', async () => {
    const testing = { controllers: [CatsController], providers: [{ provide: CatsService, useValue: {} }] };
    const { message } = await rejection(Test.createTestingModule(testing).compile());
    expect(message).toMatch(/RedisLockTestingModule\.forRoot\(\) of nestjs-redis-lock\/testing/);
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
    /^A module imports RedisLockModule by itself.* Call forRoot\(\) once, in the root module: .*RedisLockTestingModule\.forRoot\(\)/;

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
    'fails with that advice, and does not blame a class that %s',
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

  it('fails with the same advice in another module, beside forRoot() in the root module', async () => {
    @Module({ imports: [RedisLockModule], providers: [CatsService] })
    class CatsModule {}
    @Module({ imports: [RedisLockModule.forRoot({ connection: redisUrl() }), CatsModule] })
    class AppModule {}

    await expectTold(AppModule);
  });

  it('fails with the same advice for the testing module', async () => {
    const error = await rejection(Test.createTestingModule({ imports: [RedisLockTestingModule] }).compile());
    expect(error.message).toMatch(TOLD);
  });
});
