import { Inject } from '@nestjs/common';
import { Cron, Interval } from '@nestjs/schedule';
import { firstValueFrom, Observable, of } from 'rxjs';
import {
  currentLock,
  InjectLockService,
  Limited,
  LockBusyError,
  LockConfigurationError,
  Locked,
  LockLostError,
  ReadLocked,
  RedisLockService,
  WriteLocked,
} from '../../../lib/index.js';
import { FakeLockService, withFakeLocks } from '../../../lib/testing/index.js';
import { eventually } from '../../support/waiting/eventually.js';
import { rejection } from '../../support/waiting/rejection.js';

class Orders {
  until: Promise<unknown> = Promise.resolve();

  @Locked('order:<0>', { waitMs: 500 })
  async charge(id: string): Promise<string> {
    await this.until;
    return `charged ${id} under ${currentLock().key}`;
  }

  @ReadLocked('order:<0>')
  async read(id: string): Promise<string> {
    return id;
  }

  @WriteLocked('order:<0>', { ifBusy: 'throw' })
  async write(id: string): Promise<string> {
    return id;
  }

  @Limited('slots', 3, { ifBusy: 'skip' })
  async limited(): Promise<string | undefined> {
    return 'ran';
  }
}

let locks: FakeLockService;
let orders: Orders;

beforeEach(() => {
  locks = new FakeLockService();
  orders = withFakeLocks(new Orders(), locks);
});

describe('an object with fake locks', () => {
  it('is the same object, and its methods run under a lock', async () => {
    const made = new Orders();
    expect(withFakeLocks(made, locks)).toBe(made);
    expect(await made.charge('7')).toBe('charged 7 under order:7');
  });

  it('has decorators that request the keys, mode and options they name', async () => {
    await Promise.all([orders.charge('1'), orders.read('2'), orders.write('3'), orders.limited()]);
    expect(locks.calls.map(({ keys, mode, where, options: { waitMs, permits } }) => [keys, mode, where, waitMs, permits]))
      .toEqual([
        [['order:1'], 'write', 'Orders.charge', 500, 0],
        [['order:2'], 'read', 'Orders.read', 10_000, 0],
        [['order:3'], 'write', 'Orders.write', 0, 0],
        [['slots'], 'read', 'Orders.limited', 0, 3],
      ]); // prettier-ignore
  });

  it('needs no service when the test does not look at its locks', async () => {
    expect(await withFakeLocks(new Orders()).read('1')).toBe('1');
  });

  it('does not share its fake with an object that has another one', async () => {
    const other = new FakeLockService();
    const others = withFakeLocks(new Orders(), other);
    locks.refuse();
    await expect(orders.write('1')).rejects.toBeInstanceOf(LockBusyError);
    expect(await others.write('2')).toBe('2');
    expect([locks.keys, other.keys]).toEqual([['order:1'], ['order:2']]);
  });

  it('uses the fake that it was given last', async () => {
    const other = new FakeLockService();
    await withFakeLocks(orders, other).read('1');
    expect([locks.keys, other.keys]).toEqual([[], ['order:1']]);
  });
});

describe('a decorated method', () => {
  it('rejects with a LockLostError when a fake loses its lock', async () => {
    let finish!: () => void;
    orders.until = new Promise<void>((resolve) => (finish = resolve));
    const charging = orders.charge('1');
    await eventually(() => locks.lose('order:1', 'taken'));
    finish();
    const error = await rejection<LockLostError>(charging);
    expect(error).toBeInstanceOf(LockLostError);
    expect(error).toMatchObject({ reason: 'taken', result: 'charged 1 under order:1' });
  });
});

describe('withFakeLocks', () => {
  it('sets the services that Nest would inject into properties', async () => {
    class Stock {
      @InjectLockService() readonly byName!: RedisLockService;
      @Inject(RedisLockService) readonly byClass!: RedisLockService;
      @Inject() readonly byType!: RedisLockService;
      @Inject('other') readonly other: unknown;
    }
    const stock = withFakeLocks(new Stock(), locks);
    expect([stock.byName, stock.byClass, stock.byType]).toEqual([locks, locks, locks]);
    expect(stock.other).toBeUndefined();
  });

  it('works with inherited decorators, those of a subclass, and overridden methods', async () => {
    class Special extends Orders {
      @Locked('special:<0>')
      async special(id: string): Promise<string> {
        return super.read(id);
      }

      override async write(id: string): Promise<string> {
        return `over ${await super.write(id)}`;
      }
    }
    const special = withFakeLocks(new Special(), locks);
    expect([await special.special('1'), await special.write('2')]).toEqual(['1', 'over 2']);
    expect(locks.keys).toEqual(['special:1', 'order:1', 'order:2']);
    await expect(rejection(new Special().write('1'))).resolves.toBeInstanceOf(LockConfigurationError);
  });

  it('sets the properties of its connection only, so that an object can have a fake for each', async () => {
    class Both {
      @InjectLockService('audit') readonly audits!: RedisLockService;

      @Locked('default')
      async run(): Promise<void> {}

      @Locked('audit', { connection: 'audit' })
      async audit(): Promise<void> {}
    }
    const audit = new FakeLockService({ name: 'audit' });
    const both = withFakeLocks(new Both(), audit);
    await both.audit();
    expect([both.audits, audit.connection, audit.keys]).toEqual([audit, 'audit', ['audit']]);
    await expect(both.run()).rejects.toBeInstanceOf(LockConfigurationError);
    await withFakeLocks(both, locks).run();
    expect([locks.keys, audit.keys]).toEqual([['default'], ['audit']]);
  });

  it('throws for an object whose class has nothing to fake, with advice', () => {
    class Plain {
      constructor(readonly locks: RedisLockService) {}
    }
    const faking = () => withFakeLocks(new Plain(locks), locks);
    expect(faking).toThrow(LockConfigurationError);
    expect(faking).toThrow(/Plain has no lock decorator, .* give its constructor the FakeLockService/);
    const named = () => withFakeLocks(new Orders(), new FakeLockService({ name: 'audit' }));
    expect(named).toThrow(/Orders has no lock decorator of the connection "audit"/);
  });
});

class Jobs {
  runs = 0;

  @Cron('0 12 * * *')
  @Locked('noon', { oncePer: 'fire' })
  async noon(): Promise<string | undefined> {
    this.runs += 1;
    return 'ran';
  }

  @Interval(60_000)
  @Locked('slot', { oncePer: 'fire', rerunOnLoss: true, spreadMs: 3_600_000 })
  async slot(): Promise<string | undefined> {
    return 'ran';
  }

  @Locked('strict', { oncePer: 60_000, ifBusy: 'throw' })
  async strict(): Promise<string | undefined> {
    return 'ran';
  }
}

describe('a job under fake locks', () => {
  let jobs: Jobs;
  beforeEach(() => void (jobs = withFakeLocks(new Jobs(), locks)));

  it('runs at every call, without a scheduler and without a random delay', async () => {
    expect([await jobs.noon(), await jobs.noon(), await jobs.slot(), await jobs.strict()]).toEqual(
      ['ran', 'ran', 'ran', 'ran'],
    ); // prettier-ignore
    expect([jobs.runs, locks.keys]).toEqual([2, ['noon', 'noon', 'slot', 'strict']]);
  });
});

class Streams {
  until: Promise<unknown> = Promise.resolve();

  @Locked('values')
  values(): Observable<number> {
    return of(1, 2);
  }

  @Locked('items')
  async *items(): AsyncGenerator<string> {
    yield currentLock().key;
    await this.until;
    yield 'last';
  }
}

describe('streams under fake locks', () => {
  let streams: Streams;
  beforeEach(() => void (streams = withFakeLocks(new Streams(), locks)));

  it('acquire for each subscription, and release when they complete', async () => {
    expect(locks.keys).toEqual([]);
    const values = streams.values();
    expect([await firstValueFrom(values), await firstValueFrom(values)]).toEqual([1, 1]);
    expect([locks.keys, locks.activity.held]).toEqual([['values', 'values'], 0]);
  });

  it('end with a LockLostError when their lock is lost', async () => {
    streams.until = new Promise(() => undefined);
    const items = streams.items();
    expect(await items.next()).toEqual({ value: 'items', done: false });
    const next = items.next();
    expect(locks.lose('items')).toBe(1);
    await expect(next).rejects.toBeInstanceOf(LockLostError);
  });
});
