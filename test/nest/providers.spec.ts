import 'reflect-metadata';
import {
  Controller,
  Get,
  type INestApplication,
  Injectable,
  mixin,
  type ModuleMetadata,
  Param,
  Scope,
  UseGuards,
  UseInterceptors,
  UsePipes,
} from '@nestjs/common';
import { ModuleRef } from '@nestjs/core';
import { Test } from '@nestjs/testing';
import { currentLock, Locked, LockConfigurationError, LockNotHeldError, RedisLockModule } from '../../lib/index.js';
import { closeAll, redisUrl, startApp } from '../support/lock-app.js';

class Base {
  @Locked('base:<0>')
  async run(id: string): Promise<string> {
    return `${id} ${currentLock().key}`;
  }
}

@Injectable({ scope: Scope.REQUEST })
class PerRequest extends Base {}

@Injectable({ scope: Scope.TRANSIENT })
class Transient extends Base {}

abstract class Abstract {
  abstract name(): string;

  @Locked('abstract')
  async run(_id: string): Promise<string> {
    return `${this.name()} ${currentLock().key}`;
  }
}

class Concrete extends Abstract {
  name(): string {
    return 'concrete';
  }
}

class Child extends Base {
  @Locked('child:<0>')
  async own(id: string): Promise<string> {
    return `${id} ${currentLock().key}`;
  }
}

class Overriding extends Base {
  override async run(_id: string): Promise<string> {
    return currentLock().key;
  }

  async viaSuper(id: string): Promise<string> {
    return super.run(id);
  }
}

const mixed = (name: string) => {
  class Mixed {
    @Locked(`mixed:${name}`)
    async run(_id: string): Promise<string> {
      return currentLock().key;
    }
  }
  return mixin(Mixed);
};

afterEach(closeAll);

const appWith = async (providers: ModuleMetadata['providers'] = []) => (await startApp({}, { providers })).app;

describe('a class that Nest builds is locked', () => {
  it.each([
    ['a singleton', Base, '7 base:7'],
    ['a request-scoped class', PerRequest, '7 base:7'],
    ['a transient class', Transient, '7 base:7'],
    ['a subclass of an abstract one', Concrete, 'concrete abstract'],
    ['a subclass with decorators of its own, in the inherited method', Child, '7 base:7'],
    ['a mixin', mixed('a'), 'mixed:a'],
  ])('%s', async (_what, type, expected) => {
    const app = await appWith([type]);
    expect(await (await app.resolve<Base>(type).catch(() => app.get<Base>(type))).run('7')).toBe(expected);
  });

  it('a subclass with decorators of its own, in its own method', async () => {
    expect(await (await appWith([Child])).get(Child).own('7')).toBe('7 child:7');
  });

  it('moduleRef.create', async () => {
    const created = await (await appWith()).get(ModuleRef).create(Base);
    expect(await created.run('7')).toBe('7 base:7');
  });
});

describe('an override without the decorator', () => {
  it('is not locked, and super.run() is', async () => {
    const overriding = (await appWith([Overriding])).get(Overriding);
    await expect(overriding.run('7')).rejects.toBeInstanceOf(LockNotHeldError);
    expect(await overriding.viaSuper('7')).toBe('7 base:7');
  });
});

const seen: string[] = [];

@Injectable()
class Guard {
  @Locked('guard')
  async canActivate(): Promise<boolean> {
    seen.push(currentLock().key);
    return true;
  }
}

@Injectable()
class Pipe {
  @Locked('pipe')
  async transform(value: unknown): Promise<unknown> {
    seen.push(currentLock().key);
    return value;
  }
}

@Injectable()
class Interceptor {
  @Locked('interceptor')
  async before(): Promise<void> {
    seen.push(currentLock().key);
  }

  async intercept(_context: unknown, next: { handle(): any }): Promise<any> {
    await this.before();
    return next.handle();
  }
}

@Controller()
@UseGuards(Guard)
@UseInterceptors(Interceptor)
@UsePipes(Pipe)
class Routes {
  @Get(':id')
  @Locked('route:<0>')
  async get(@Param('id') _id: string): Promise<string> {
    return [...seen.splice(0), currentLock().key].join(' ');
  }
}

it('a controller, its guard, interceptor and pipe are locked', async () => {
  const imports = [RedisLockModule.forRoot({ connection: redisUrl(), drainMs: 500, keyPrefix: 'providers:' })];
  const compiled = await Test.createTestingModule({ imports, controllers: [Routes] }).compile();
  const app: INestApplication = compiled.createNestApplication();
  await app.listen(0, '127.0.0.1');
  const answer = await fetch(`${await app.getUrl()}/7`);
  expect(await answer.text()).toBe('guard interceptor pipe route:7');
  await app.close();
});

describe('an object that Nest did not build', () => {
  it.each([
    ['useFactory', { provide: Base, useFactory: () => new Base() }],
    ['useValue', { provide: Base, useValue: new Base() }],
  ])('by %s is locked by the only living module', async (_what, provider) => {
    expect(await (await appWith([provider])).get(Base).run('7')).toBe('7 base:7');
  });

  it('by new is locked by the only living module, and no more once that is closed', async () => {
    const { app } = await startApp();
    expect(await new Base().run('7')).toBe('7 base:7');
    await app.close();
    const error = await new Base().run('7').catch((thrown: unknown) => thrown);
    expect(error).toBeInstanceOf(LockConfigurationError);
    expect((error as Error).message).toMatch(/^Base\.run is locked, but no RedisLockModule is running/);
  });

  it('is refused when two modules live, and when the only one is of another connection', async () => {
    await startApp({ name: 'jobs' });
    await expect(new Base().run('7')).rejects.toThrow('no RedisLockModule is running');
    await startApp();
    expect(await new Base().run('7')).toBe('7 base:7');
    await startApp();
    await expect(new Base().run('7')).rejects.toThrow('several RedisLockModules are running');
  });

  it('is refused with LockConfigurationError when the method is called without its instance and no module lives', async () => {
    const run = Object.getOwnPropertyDescriptor(Base.prototype, 'run')!.value as (id: string) => Promise<string>;
    await expect(run('7')).rejects.toBeInstanceOf(LockConfigurationError);
  });
});
