import { Controller, Get, Injectable, type NestInterceptor, UseInterceptors } from '@nestjs/common';
import { ScheduleModule } from '@nestjs/schedule';
import { Test, type TestingModule } from '@nestjs/testing';
import {
  InjectLockService,
  Locked,
  LockConfigurationError,
  LockInterceptor,
  LockShutdownError,
  LockStoreError,
  LockWaitTimeoutError,
  RedisLockModule,
  RedisLockService,
} from '../../../lib/index.js';
import { FakeLockModule, FakeLockService, RedisLockTestingModule, useFakeLocks } from '../../../lib/testing/index.js';
import { eventually } from '../../support/waiting/eventually.js';
import { rejection } from '../../support/waiting/rejection.js';
import { closeAll, closeLater, startModule } from '../../support/apps/lock-app.js';
import { startTrap, type Trap } from './support/start-trap.js';

@Injectable()
class Orders {
  constructor(readonly locks: RedisLockService) {}

  @Locked('order:<0>')
  async charge(id: string): Promise<string> {
    return `charged ${id}`;
  }

  @Locked('feed:<0>')
  async *feed(id: string): AsyncGenerator<string> {
    yield id;
  }

  @Locked('safe', { onUnavailable: 'skip' })
  async safe(): Promise<string | undefined> {
    return 'ran';
  }
}

@Injectable()
class ByToken {
  @InjectLockService() readonly locks!: RedisLockService;
}

@Injectable()
class Audits {
  constructor(@InjectLockService('audit') readonly locks: RedisLockService) {}

  @Locked('audit:<0>', { connection: 'audit' })
  async write(id: string): Promise<string> {
    return id;
  }
}

/** What `useFactory` gives was not built by Nest. */
class ByHand extends Orders {}

const BY_HAND = { provide: ByHand, useFactory: () => new ByHand(null as never) };

let locks: FakeLockService;

beforeEach(() => void (locks = new FakeLockService()));
afterEach(closeAll);

describe('FakeLockModule', () => {
  it('replaces RedisLockModule: its decorators, its service, and objects that Nest did not build', async () => {
    const app = await startModule({ imports: [FakeLockModule.forRoot(locks)], providers: [Orders, ByToken, BY_HAND] });
    expect(await app.get(Orders).charge('1')).toBe('charged 1');
    expect(await app.get(ByHand).charge('2')).toBe('charged 2');
    expect([Orders, ByToken].map((type) => app.get<Orders | ByToken>(type).locks)).toEqual([locks, locks]);
    expect(app.get(FakeLockService)).toBe(locks);
    expect(locks.keys).toEqual(['order:1', 'order:2']);
    await app.close();
    await expect(app.get(ByHand).charge('3')).rejects.toBeInstanceOf(LockConfigurationError);
  });

  it('replaces a named connection next to the default one', async () => {
    const audit = new FakeLockService({ name: 'audit' });
    const imports = [FakeLockModule.forRoot(audit), FakeLockModule.forRoot(locks)];
    const app = await startModule({ imports, providers: [Orders, Audits] });
    await app.get(Orders).charge('1');
    await app.get(Audits).write('2');
    expect([locks.keys, audit.keys]).toEqual([['order:1'], ['audit:2']]);
    expect([app.get(Orders).locks, app.get(Audits).locks]).toEqual([locks, audit]);
  });

  it('closes its fake, and the next app or `reset()` opens it again', async () => {
    const imports = [FakeLockModule.forRoot(locks)];
    const start = () => startModule({ imports, providers: [Orders] });
    const first = await start();
    const left = await locks.acquire('left');
    await first.close();
    expect(left.held).toBe(false);
    await expect(first.get(Orders).charge('1')).rejects.toBeInstanceOf(LockShutdownError);
    await expect(locks.inspect('a')).rejects.toBeInstanceOf(LockStoreError);
    const second = await start();
    expect(await second.get(Orders).charge('1')).toBe('charged 1');
    const revoked = await locks.acquire('a');
    expect(await locks.forceRelease('a')).toBe(true);
    await eventually(() => revoked.signal.aborted);
    await second.close();
    expect(await locks.reset().withLock('a', () => 'ran')).toBe('ran');
  });

  it('locks requests with LockInterceptor.for()', async () => {
    @Controller()
    class Users {
      @Get('users/:id')
      @UseInterceptors(LockInterceptor.for('user:<0.params.id>'))
      get(): string {
        return 'a user';
      }
    }
    const builder = Test.createTestingModule({ imports: [FakeLockModule.forRoot(locks)], controllers: [Users] });
    const app = closeLater((await builder.compile()).createNestApplication({ logger: false }));
    await app.listen(0, '127.0.0.1');
    expect(await (await fetch(`${await app.getUrl()}/users/7`)).text()).toBe('a user');
    expect(locks.calls).toMatchObject([{ keys: ['user:7'], where: 'Users.get' }]);
  });
});

/** Like createMock() of @golevelup/ts-jest: an object with every method. */
const answersToEachName = (): object => {
  const methods = new Map<string | symbol, unknown>([['then', undefined]]);
  const get = (_target: object, name: string | symbol): unknown => {
    if (!methods.has(name)) methods.set(name, jest.fn());
    return methods.get(name);
  };
  return new Proxy({}, { get });
};

/** Like sinon.createStubInstance(): an object of the class whose constructor never ran. */
function stubInstance(token?: unknown): object {
  const { prototype } = (typeof token === 'function' ? token : Object) as { prototype: object };
  const properties = Object.entries(Object.getOwnPropertyDescriptors(prototype));
  const methods = properties.filter(([name, { value }]) => name !== 'constructor' && typeof value === 'function');
  return Object.create(prototype, Object.fromEntries(methods.map(([name]) => [name, { value: jest.fn() }])));
}

describe('a mock instead of', () => {
  const MOCKS: [string, (token?: unknown) => object][] = [
    ['an object with the prototype of the class', stubInstance],
    ['jest.fn() as methods', () => ({ run: jest.fn(), around: jest.fn(), enter: jest.fn(), withLock: jest.fn() })],
    ['an object that has every method', answersToEachName],
  ];
  const MODULES = [RedisLockTestingModule.forRoot()];

  const expectRefused = async (call: Promise<unknown>, where: string): Promise<void> => {
    const error = await rejection(call);
    expect(error).toBeInstanceOf(LockConfigurationError);
    expect(error.message).toMatch(new RegExp(`^${where}.* mock.*RedisLockTestingModule`));
  };

  it.each(MOCKS)('all that a class injects never runs a locked method silently (%s)', async (_what, mock) => {
    const app = await Test.createTestingModule({ providers: [Orders, BY_HAND] })
      .useMocker(mock)
      .compile();
    await expectRefused(app.get(Orders).charge('1'), 'Orders.charge');
  });

  it.each(MOCKS)('one part of the module never runs a locked method silently (%s)', async (_what, mock) => {
    for (const part of [RedisLockService, LockInterceptor]) {
      const app = await startModule({ imports: MODULES, providers: [Orders, BY_HAND] }, (builder) =>
        builder.overrideProvider(part).useValue(mock(part)),
      );
      await expectRefused(app.get(Orders).charge('1'), 'Orders.charge');
      const read = async () => app.get(Orders).feed('1').next();
      await expectRefused(read(), 'Orders.feed');
      if (part === RedisLockService) await expectRefused(app.get(ByHand).charge('1'), 'Orders.charge');
    }
  });

  it.each(MOCKS)('the locks of a request never answers it silently (%s)', async (_what, mock) => {
    const Locks = LockInterceptor.for('user:<0>');
    const app = await Test.createTestingModule({ providers: [Locks] })
      .useMocker(mock)
      .compile();
    const context = {
      getHandler: () => answersToEachName,
      getClass: () => Orders,
      getArgs: () => ['7'],
      getType: () => 'http',
    };
    const next = { handle: jest.fn() };
    const answer = async () => app.get<NestInterceptor>(Locks).intercept(context as never, next);
    await expectRefused(answer(), 'LockInterceptor.for');
    expect(next.handle).not.toHaveBeenCalled();
  });

  it('nothing else needs the module: a class without locked methods, and a spy on the real locks', async () => {
    const plain = await Test.createTestingModule({ providers: [ByToken] })
      .useMocker(answersToEachName)
      .compile();
    expect(plain.get(ByToken).locks).toBeDefined();
    const app = await startModule({ imports: MODULES, providers: [Orders] });
    const run = jest.spyOn(app.get(LockInterceptor), 'run');
    expect(await app.get(Orders).charge('1')).toBe('charged 1');
    expect(run).toHaveBeenCalledTimes(1);
  });
});

describe('useFakeLocks', () => {
  let trap: Trap;

  beforeEach(async () => void (trap = await startTrap()));
  afterEach(() => expect(trap.connections()).toBe(0));

  const start = (fake?: FakeLockService): Promise<TestingModule> => {
    const connection = trap.url;
    const imports = [
      RedisLockModule.forRootAsync({ useFactory: () => ({ connection, onUnavailable: 'skip' }) }),
      RedisLockModule.forRoot({ name: 'audit', connection }),
      ScheduleModule.forRoot(),
    ];
    return startModule({ imports, providers: [Orders, Audits, BY_HAND] }, (builder) => useFakeLocks(builder, fake));
  };

  it('makes all lock modules of an app use one fake, and nothing connects', async () => {
    const app = await start(locks);
    await app.get(Orders).charge('1');
    await app.get(Audits).write('2');
    await app.get(Audits).locks.withLock('3', () => undefined);
    await app.get(ByHand).charge('4');
    expect(locks.keys).toEqual(['order:1', 'audit:2', '3', 'order:4']);
    locks.refuse(/^audit:/);
    await expect(app.get(Audits).write('2')).rejects.toBeInstanceOf(LockWaitTimeoutError);
  });

  it('creates a fake when none is given, which the app provides', async () => {
    const app = await start();
    const fake = app.get(RedisLockService);
    expect(fake).toBeInstanceOf(FakeLockService);
    await app.get(Orders).charge('1');
    expect((fake as FakeLockService).keys).toEqual(['order:1']);
  });

  it('uses the options of the fake, and not those of the modules that it replaces', async () => {
    const app = await start(locks.fail());
    expect(await app.get(Orders).safe()).toBeUndefined();
    await expect(app.get(Orders).charge('1')).rejects.toBeInstanceOf(LockStoreError);
    const likeThem = await start(new FakeLockService({ onUnavailable: 'skip' }).fail());
    expect(await likeThem.get(Orders).charge('1')).toBeUndefined();
  });

  it('shuts down with the app, and with its `drainMs`', async () => {
    const app = await start(locks);
    const lock = await locks.acquire('left');
    let isClosed = false;
    const closing = app.close().then(() => (isClosed = true));
    await eventually(async () => (await rejection(locks.withLock('a', () => 1))) instanceof LockShutdownError);
    expect([isClosed, lock.held]).toEqual([false, true]);
    await lock.release();
    await closing;
  });

  it('closes the app at once, with any locks that the test left held, with a `drainMs` of 0', async () => {
    const fake = new FakeLockService({ drainMs: 0 });
    const app = await start(fake);
    const lock = await fake.acquire('left');
    await app.close();
    expect([lock.held, fake.activity]).toEqual([false, { held: 0, waiting: 0 }]);
  });
});
