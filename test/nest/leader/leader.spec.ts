import 'reflect-metadata';
import { Global, Inject, Injectable, Module, type ModuleMetadata, type Provider, Scope } from '@nestjs/common';
import { LazyModuleLoader, ModuleRef } from '@nestjs/core';
import { Test } from '@nestjs/testing';
import { Cron, Interval, ScheduleModule, Timeout } from '@nestjs/schedule';
import {
  assertLocked,
  currentLock,
  type DemotionReason,
  Leader,
  type LeaderHooks,
  leadershipOf,
  type LeaderTerm,
  LockConfigurationError,
  Locked,
  LockKeyError,
  LockLostError,
  RedisLockModule,
  RedisLockService,
} from '../../../lib/index.js';
import { RedisLockTestingModule } from '../../../lib/testing/index.js';
import { closeAll, closeLater, freshKey, type LockApp, startApp, startModule } from '../../support/apps/lock-app.js';
import { untilWaiting } from '../../support/waiting/waiters.js';
import { eventually } from '../../support/waiting/eventually.js';
import { gate } from '../../support/waiting/gate.js';
import { rejection, thrownBy } from '../../support/waiting/rejection.js';

afterEach(closeAll);

const KEY = freshKey('reports');

/** What the instances of a test did, in order. */
const did: string[] = [];

@Leader(KEY, { leaseMs: 120_000 })
@Injectable()
class Reports implements LeaderHooks {
  name = '';
  readonly terms: LeaderTerm[] = [];
  work: () => unknown = () => 'done';

  onElected(term: LeaderTerm): void {
    assertLocked(KEY);
    this.terms.push(term);
    did.push(`${this.name} elected`);
  }

  onDemoted(_term: LeaderTerm, reason: DemotionReason): void {
    did.push(`${this.name} demoted: ${reason}`);
  }

  @Cron('0 0 0 1 1 *')
  async yearly(how = 'by hand'): Promise<unknown> {
    did.push(`${this.name} yearly ${how} ${currentLock().fencingToken === this.terms.at(-1)?.fencingToken}`);
    return this.work();
  }

  @Timeout(1)
  once(): void {
    did.push(`${this.name} once`);
  }

  @Interval(20)
  @Locked('tick', { ifBusy: 'skip' })
  async often(): Promise<void> {
    did.push(`${this.name} often`);
  }

  status(): string {
    return leadershipOf(this).isLeader() ? 'leads' : 'waits';
  }
}

async function startReports(name: string, metadata: ModuleMetadata = {}): Promise<LockApp & { reports: Reports }> {
  const providers = [Reports, ...(metadata.providers ?? [])];
  const started = await startApp({}, { ...metadata, imports: [ScheduleModule.forRoot()], providers });
  const reports = started.app.get(Reports);
  reports.name = name;
  return Object.assign(started, { reports });
}

/** Starts an instance that leads, and one that waits for its turn. */
async function startTwo() {
  const first = await startReports('a');
  await leadershipOf(first.reports).waitUntilLeader();
  const second = await startReports('b');
  await untilWaiting(first, KEY);
  did.length = 0;
  return [first, second] as const;
}

describe('a class with @Leader', () => {
  afterEach(async () => {
    await closeAll();
    did.length = 0;
  });

  it('leads on one instance, with a token and a name that the operator sees', async () => {
    const [{ reports, locks }, other] = await startTwo();
    expect([reports.status(), other.reports.status()]).toEqual(['leads', 'waits']);
    const { holders, fencingToken } = await locks.inspect(KEY);
    expect(fencingToken).toBe(reports.terms[0]!.fencingToken);
    expect(holders.map(({ where }) => where)).toEqual(['Reports']);
  });

  it('runs its scheduled methods only there, under the lock, and reports where it skips them', async () => {
    const [first, second] = await startTwo();
    const skipped: string[] = [];
    second.locks.events.on('skipped', ({ where, template, reason }) => skipped.push(`${where} ${template} ${reason}`));
    expect([await first.reports.yearly(), await second.reports.yearly()]).toEqual(['done', undefined]);
    expect(did.filter((line) => line.includes('yearly'))).toEqual(['a yearly by hand true']);
    expect(skipped).toContain(`Reports.yearly ${KEY} not-leader`);
    await eventually(() => did.filter((line) => line === 'a often').length >= 3);
    expect(skipped).toContain(`Reports.often ${KEY} not-leader`);
    expect(did).not.toContain('b often');
  });

  it('notifies a running method of a loss, and rejects its call', async () => {
    const [first] = await startTwo();
    const told = gate();
    first.reports.work = async () => {
      currentLock().signal.addEventListener('abort', told.open);
      await told.opened;
      return 'half';
    };
    const running = rejection<LockLostError>(first.reports.yearly());
    await first.locks.forceRelease(KEY);
    const error = await running;
    expect(error).toBeInstanceOf(LockLostError);
    expect(error).toMatchObject({ reason: 'revoked', result: 'half' });
    await eventually(() => did.includes('b elected'));
    expect(did).toContain('a demoted: revoked');
  });

  it('does not lead before its app has started, nor after it', async () => {
    const seen: unknown[] = [];
    @Injectable()
    class Early {
      constructor(private readonly reports: Reports) {}

      async onModuleInit(): Promise<void> {
        seen.push(this.reports.status(), await this.reports.yearly());
      }
    }
    const app = await startReports('a', { providers: [Early] });
    const { reports } = app;
    await leadershipOf(reports).waitUntilLeader();
    await app.close();
    seen.push(reports.status(), await reports.yearly());
    expect(seen).toEqual(['waits', undefined, 'waits', undefined]);
  });
});

const YEARLY = '0 0 0 1 1 *';

const start = async (...providers: Provider[]) => {
  const { app } = await startApp({}, { imports: [ScheduleModule.forRoot()], providers });
  return app;
};

describe('a class with @Leader', () => {
  it('may be built by a factory, or given as a value', async () => {
    @Leader(freshKey())
    class Made {
      @Cron(YEARLY)
      async run(): Promise<string> {
        return 'ran';
      }
    }
    const given = new Made();
    const app = await start({ provide: 'made', useFactory: () => new Made() });
    await leadershipOf(app.get<Made>('made')).waitUntilLeader();
    const other = await start({ provide: 'given', useValue: given }, { provide: 'again', useExisting: 'given' });
    expect(await app.get<Made>('made').run()).toBe('ran');
    expect(await other.get<Made>('given').run()).toBeUndefined();
  });

  it('begins a query of a hook or a method once, although each call of its `then` would begin it', async () => {
    let queries = 0;
    const query = () => ({
      // oxlint-disable-next-line unicorn/no-thenable -- as those of query builders are
      then(resolve: (value: string) => void) {
        queries += 1;
        resolve('rows');
      },
    });
    @Leader(freshKey())
    class Queries {
      onElected(): unknown {
        return query();
      }

      @Cron('0 0 0 1 1 *')
      yearly(): unknown {
        return query();
      }
    }
    const { app } = await startApp({}, { imports: [ScheduleModule.forRoot()], providers: [Queries] });
    await eventually(() => queries > 0);
    expect(await app.get(Queries).yearly()).toBe('rows');
    expect(queries).toBe(2);
  });

  it('leads for its subclasses, with the methods that they inherit', async () => {
    @Leader(freshKey())
    class Base {
      @Cron(YEARLY)
      async run(): Promise<string> {
        return this.constructor.name;
      }
    }
    @Injectable()
    class Plain extends Base {}
    const app = await start(Plain);
    await leadershipOf(app.get(Plain)).waitUntilLeader();
    const other = await start(Plain);
    expect([await app.get(Plain).run(), await other.get(Plain).run()]).toEqual(['Plain', undefined]);
  });

  it('guards the scheduled methods of its base classes, and does not change those classes', async () => {
    class Base {
      @Cron(YEARLY)
      async run(): Promise<string> {
        return 'ran';
      }

      async other(): Promise<string> {
        return 'ran';
      }
    }
    @Leader(freshKey())
    @Injectable()
    class Own extends Base {}
    const app = await start(Own);
    await leadershipOf(app.get(Own)).waitUntilLeader();
    const other = await start(Own);
    expect([await app.get(Own).run(), await other.get(Own).run()]).toEqual(['ran', undefined]);
    expect([await other.get(Own).other(), await new Base().run()]).toEqual(['ran', 'ran']);
  });

  it('needs the decorator again on a subclass with its own schedule', async () => {
    const [key, subkey] = [freshKey(), freshKey()];
    @Leader(key)
    class Base {
      @Cron(YEARLY)
      async run(): Promise<string> {
        return leadershipOf(this).key;
      }
    }
    @Injectable()
    class Forgotten extends Base {
      @Interval(1_000)
      async more(): Promise<void> {}
    }
    @Leader(subkey)
    @Injectable()
    class Repeated extends Base {
      @Interval(1_000)
      async more(): Promise<string> {
        return 'more';
      }
    }
    const error = await rejection(start(Forgotten));
    expect(error).toBeInstanceOf(LockConfigurationError);
    expect(error.message).toMatch(/^Forgotten\.more has a schedule, and would run on every instance/u);
    const app = await start(Repeated);
    const repeated = app.get(Repeated);
    await leadershipOf(repeated).waitUntilLeader();
    expect([await repeated.run(), await repeated.more()]).toEqual([subkey, 'more']);
  });

  it('leads on the connection that it names', async () => {
    const key = freshKey();
    @Leader(key, { connection: 'other' })
    @Injectable()
    class Elsewhere {}
    const providers = [Elsewhere];
    const { app, locks } = await startApp({ name: 'other', keyPrefix: `${freshKey()}:` }, { providers });
    await leadershipOf(app.get(Elsewhere)).waitUntilLeader();
    expect(await locks.isLocked(key)).toBe(true);
  });

  it('keeps an app without that connection from starting', async () => {
    @Leader('reports', { connection: 'none' })
    @Injectable()
    class Nowhere {}
    await expect(start(Nowhere)).rejects.toThrow(/RedisLockService "none" \(import RedisLockModule\.forRoot\(\)/u);
  });

  it('is refused where each request or injection would build an object', async () => {
    @Leader('reports')
    @Injectable({ scope: Scope.REQUEST })
    class PerRequest {}
    @Leader('reports')
    @Injectable({ scope: Scope.TRANSIENT })
    class PerInjection {}
    @Leader('reports')
    @Injectable()
    class Inherited {
      constructor(readonly request: PerRequest) {}
    }
    for (const [type, ...others] of [[PerRequest], [PerInjection], [Inherited, PerRequest]]) {
      const error = await rejection(start(type!, ...others));
      expect(error).toBeInstanceOf(LockConfigurationError);
      expect(error.message).toMatch(/has @Leader, but is built for each request or injection/u);
    }
  });

  it('never runs a scheduled method silently on an object that no module provides', async () => {
    let runs = 0;
    @Leader('reports')
    class Nobodys {
      @Cron(YEARLY)
      run(): void {
        runs += 1;
      }
    }
    await startModule({ imports: [RedisLockModule.forRoot()] });
    const error = await rejection(Promise.resolve(new Nobodys().run()));
    expect(error).toBeInstanceOf(LockConfigurationError);
    expect(error.message).toMatch(/^Nobodys\.run needs the leadership of an object that has none/u);
    for (const one of [new Nobodys(), Object.create(null), null, undefined, 7])
      expect(thrownBy(() => leadershipOf(one as object))).toBeInstanceOf(LockConfigurationError);
    expect(runs).toBe(0);
  });
});

describe('the campaign of a class with @Leader', () => {
  /** Reports in which hook its object was elected, with the leadership that it found in `onModuleInit`. */
  function watched(key: string) {
    const seen: string[] = [];
    @Leader(key)
    @Injectable()
    class Watched {
      constructor(readonly locks: RedisLockService) {}

      onModuleInit(): void {
        seen.push(`init of ${leadershipOf(this).key}`);
      }

      async onApplicationBootstrap(): Promise<void> {
        // A campaign that has begun has sent its commands before these.
        await this.locks.withLock(freshKey(), () => undefined);
        seen.push(`bootstrap, ${await this.locks.isLocked(key)}`);
      }

      onElected(): void {
        seen.push('elected');
      }
    }
    return { Watched, seen };
  }

  it('begins when the whole app has started, also in a module that Nest starts before that of the locks', async () => {
    const key = freshKey();
    const { Watched, seen } = watched(key);
    @Global()
    @Module({ providers: [Watched], exports: [Watched] })
    class Early {}
    const locks = RedisLockTestingModule.forRoot();
    const app = await startModule({ imports: [Early, locks] });
    await leadershipOf(app.get(Watched)).waitUntilLeader();
    expect(seen).toEqual([`init of ${key}`, 'bootstrap, false', 'elected']);
  });

  it('does not begin in an app whose start fails', async () => {
    const key = freshKey();
    const { Watched, seen } = watched(key);
    @Injectable()
    class Failing {
      constructor(@Inject(Watched) readonly watched: object) {}

      onApplicationBootstrap(): void {
        throw new Error('no database');
      }
    }
    const imports = [RedisLockTestingModule.forRoot()];
    const app = await Test.createTestingModule({ imports, providers: [Watched, Failing] }).compile();
    await expect(closeLater(app).init()).rejects.toThrow('no database');
    expect([seen, await app.get(RedisLockService).isLocked(key)]).toEqual([
      [`init of ${key}`, 'bootstrap, false'],
      false,
    ]);
  });

  it('begins at once for an object that is built later, by a lazy module or moduleRef.create()', async () => {
    const [lazy, created] = [freshKey(), freshKey()];
    @Leader(lazy)
    @Injectable()
    class Lazy {}
    @Module({ providers: [Lazy] })
    class LazyModule {}
    @Leader(created)
    @Injectable()
    class Created {}
    const app = await start();
    const lazyOne = (await app.get(LazyModuleLoader).load(() => LazyModule)).get(Lazy);
    const createdOne = await app.get(ModuleRef).create(Created);
    for (const one of [lazyOne, createdOne]) await leadershipOf(one).waitUntilLeader();
    const error = await rejection(app.get(ModuleRef).create(Created));
    expect(error.message).toMatch(/Created.*would never lead/u);
    await leadershipOf(createdOne).stop();
    await leadershipOf(await app.get(ModuleRef).create(Created)).waitUntilLeader();
  });

  it('is refused where a second object of the app would never lead', async () => {
    const key = freshKey();
    @Leader(key)
    class Base {}
    @Injectable()
    class Shop extends Base {}
    @Injectable()
    class Bank extends Base {}
    @Leader(key)
    @Injectable()
    class Other {}
    const again = { provide: 'again', useFactory: () => new Shop() };
    for (const [one, other] of [
      [Shop, Bank],
      [Shop, Other],
      [Shop, again],
      [Shop, { provide: 'again', useClass: Shop }],
    ]) {
      const error = await rejection(start(one!, other!));
      expect(error).toBeInstanceOf(LockConfigurationError);
      expect(error.message).toMatch(new RegExp(`Shop.* campaign for "${key}".*would never lead.*its own key`, 'u'));
    }
    await start(Shop, { provide: 'alias', useExisting: Shop });
  });
});

describe('@Leader cannot be defined', () => {
  const apply = (decorator: unknown, ...args: unknown[]) => (decorator as (...all: unknown[]) => void)(...args);
  class Target {}

  it.each([
    [
      'without a key',
      () => Leader(''),
      LockKeyError,
      '@Leader of Target: Expected a lock key to be a non-empty string',
    ],
    ['with a placeholder', () => Leader('a:<0>'), LockKeyError, 'the key "a:<0>" has a placeholder'],
    ['with several keys', () => Leader(['a'] as never), LockKeyError, 'non-empty string'],
    [
      'with an unknown option',
      () => Leader('a', { waitMs: 1 } as never),
      LockConfigurationError,
      'Unknown option `waitMs`',
    ],
    ['with a wrong lease', () => Leader('a', { leaseMs: 1 }), LockConfigurationError, '`leaseMs`'],
    ['with a wrong connection', () => Leader('a', { connection: '' }), LockConfigurationError, '`connection`'],
    [
      'with options that are not an object',
      () => Leader('a', null as never),
      LockConfigurationError,
      'to be an object',
    ],
  ])('%s', (_how, make, Kind, text) => {
    const error = thrownBy(() => apply(make(), Target));
    expect(error).toBeInstanceOf(Kind);
    expect(error.message).toContain(text);
  });

  it('without parentheses', () => {
    expect(() => apply(Leader, Target)).toThrow(/^Target: @Leader is written without parentheses/u);
  });

  it('on a member', () => {
    expect(() => apply(Leader('a'), Target.prototype, 'run', {})).toThrow(/a member cannot lead/u);
  });

  it('twice on one class', () => {
    class Twice {}
    apply(Leader('a'), Twice);
    expect(() => apply(Leader('b'), Twice)).toThrow(/@Leader of Twice: the class has two keys/u);
  });

  it('as a decorator of ECMAScript', () => {
    expect(() => apply(Leader('a'), Target, { kind: 'class', name: 'Target' })).toThrow(/standard decorator/u);
  });
});
