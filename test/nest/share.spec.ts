import { AsyncResource } from 'node:async_hooks';
import { Injectable } from '@nestjs/common';
import { Observable, of } from 'rxjs';
import {
  currentLock,
  Locked,
  LockConfigurationError,
  LockInterceptor,
  LockLostError,
  LockReentryError,
} from '../../lib/index.js';
import { FakeLockModule, FakeLockService } from '../../lib/testing/index.js';
import { closeAll, freshKey, startApp } from '../support/apps/lock-app.js';
import { eventually } from '../support/waiting/eventually.js';
import { gate } from '../support/waiting/gate.js';
import { rejection, thrownBy } from '../support/waiting/rejection.js';
import { untilFree, untilWaiting } from '../support/waiting/waiters.js';

const SHARE = { ifBusy: 'share' } as const;

interface Price {
  readonly sku: string;
  readonly run: number;
}

/** Loads prices for as long as the test says. */
@Injectable()
class Prices {
  runs = 0;
  readonly finish = gate();
  error: Error | undefined;

  @Locked('price:<0>', SHARE)
  async load(sku: string): Promise<Price> {
    const run = (this.runs += 1);
    await this.finish.opened;
    if (this.error) throw this.error;
    return { sku, run };
  }

  @Locked('price:<0>', SHARE)
  async loadOther(sku: string): Promise<Price> {
    return { sku, run: (this.runs += 1) };
  }

  /** Calls itself once, inside of its own lock. */
  @Locked('price:<0>', SHARE)
  async nested(sku: string, depth = 1): Promise<number> {
    this.runs += 1;
    if (depth > 0) return (await this.nested(sku, depth - 1)) + 1;
    return 0;
  }

  /** Calls itself once, after it has released its lock, and inside another one. */
  @Locked('price:<0>', SHARE)
  async released(sku: string, depth = 1): Promise<number> {
    this.runs += 1;
    await currentLock().release();
    return depth > 0 ? (await this.inOther(`${sku}:other`, () => this.released(sku, depth - 1))) + 1 : 0;
  }

  @Locked('price:<0>')
  async inOther(_sku: string, work: () => Promise<number>): Promise<number> {
    return work();
  }

  @Locked('price:<0>', { ...SHARE, reentrant: false })
  async neverNested(sku: string, depth = 1): Promise<number> {
    return depth > 0 ? this.neverNested(sku, depth - 1) : 0;
  }

  /** Its declaration does not reveal that it returns a stream. */
  @Locked('price:<0>', SHARE)
  async later(_sku: string, kind: 'observable' | 'iterable'): Promise<any> {
    this.runs += 1;
    if (kind === 'observable') return of(1);
    const onClosed = (): void => void (this.runs += 10);
    return {
      [Symbol.asyncIterator]: () => ({ next: async () => ({ done: true }) }),
      return: async () => onClosed(),
    };
  }
}

@Injectable()
class MorePrices extends Prices {}

/** An instance of an app; `shared`: how often a call has shared. */
async function startPrices(options = {}) {
  const app = await startApp(options, { providers: [Prices, MorePrices] });
  const counts = { shared: 0 };
  app.locks.events.on('skipped', ({ reason }) => (counts.shared += reason === 'shared' ? 1 : 0));
  return { ...app, counts, prices: app.app.get(Prices, { strict: false }) };
}

describe('calls with `ifBusy: share`', () => {
  afterEach(closeAll);

  it('run the method once for all calls that come while it runs, and return the same object to them', async () => {
    const { prices, counts } = await startPrices();
    const sku = freshKey();
    const calls = [prices.load(sku)];
    await eventually(() => prices.runs === 1);
    for (let i = 0; i < 50; i += 1) calls.push(prices.load(sku));
    prices.finish.open();
    const results = await Promise.all(calls);
    expect(results.every((result) => result === results[0])).toBe(true);
    expect([results[0], prices.runs, counts.shared]).toEqual([{ sku, run: 1 }, 1, 50]);
    expect(await prices.load(sku)).toEqual({ sku, run: 2 });
  });

  it('also share while the first one waits for the lock of another process', async () => {
    const [a, b] = [await startPrices(), await startPrices()];
    const sku = freshKey();
    const first = b.prices.load(sku);
    await eventually(() => b.prices.runs === 1);
    const waiting = [a.prices.load(sku), a.prices.load(sku), a.prices.load(sku)];
    await untilWaiting(a, `price:${sku}`);
    expect([a.prices.runs, a.counts.shared]).toEqual([0, 2]);
    a.prices.finish.open();
    b.prices.finish.open();
    expect(await first).toEqual({ sku, run: 1 });
    expect(await Promise.all(waiting)).toEqual([1, 1, 1].map((run) => ({ sku, run })));
    expect([a.prices.runs, b.prices.runs]).toEqual([1, 1]);
  });

  it('get the error of the one that runs', async () => {
    const { prices } = await startPrices();
    const sku = freshKey();
    prices.error = new Error('no price');
    const calls = [prices.load(sku), prices.load(sku)].map((call) => rejection(call));
    prices.finish.open();
    for (const error of await Promise.all(calls)) expect(error).toBe(prices.error);
  });

  it('get the loss of its lock, with what it returned', async () => {
    const { prices, locks } = await startPrices();
    const sku = freshKey();
    const calls = [prices.load(sku), prices.load(sku)].map((call) => rejection<LockLostError>(call));
    await eventually(() => prices.runs === 1);
    await locks.forceRelease(`price:${sku}`);
    prices.finish.open();
    const [first, second] = await Promise.all(calls);
    expect(first).toBeInstanceOf(LockLostError);
    expect([second, first!.reason, first!.result]).toEqual([first, 'revoked', { sku, run: 1 }]);
  });

  it('re-enter the lock that their own chain of calls holds', async () => {
    const { prices, counts, locks } = await startPrices();
    const sku = freshKey();
    expect(await prices.nested(sku)).toBe(1);
    expect([prices.runs, counts.shared]).toEqual([2, 0]);
    expect(await locks.withLock(`price:${sku}`, () => prices.nested(sku))).toBe(1);
    expect(await rejection(prices.neverNested(sku))).toBeInstanceOf(LockReentryError);
  });

  it('run by themselves inside the call that they would share, even when it has released its lock', async () => {
    const { prices, counts } = await startPrices();
    expect(await prices.released(freshKey())).toBe(1);
    expect([prices.runs, counts.shared]).toEqual([2, 0]);
  });

  it('do not share a call that waits for a lock that their chain holds', async () => {
    const app = await startPrices();
    const { prices, locks } = app;
    const sku = freshKey();
    const elsewhere = new AsyncResource('elsewhere');
    const waiting = await locks.withLock(`price:${sku}`, async () => {
      const call = elsewhere.runInAsyncScope(() => prices.loadOther(sku));
      await untilWaiting(app, `price:${sku}`);
      expect(await prices.loadOther(sku)).toEqual({ sku, run: 1 });
      return { call };
    });
    expect(await waiting.call).toEqual({ sku, run: 2 });
  });

  it('run once, and re-enter, also without their lock when Redis is away', async () => {
    const away = FakeLockModule.forRoot(new FakeLockService({ name: 'away' }).fail());
    @Injectable()
    class Unlocked {
      runs = 0;

      @Locked('price:<0>', { ...SHARE, connection: 'away', onUnavailable: 'run-unlocked', waitMs: 200 })
      async load(sku: string, depth: number): Promise<number> {
        this.runs += 1;
        return depth > 0 ? (await this.load(sku, depth - 1)) + 1 : 0;
      }
    }
    const { app } = await startApp({}, { imports: [away], providers: [Unlocked] });
    const unlocked = app.get(Unlocked);
    const calls = [unlocked.load('a', 0), unlocked.load('a', 0), unlocked.load('nested', 1)];
    expect(await Promise.all(calls)).toEqual([0, 0, 1]);
    expect(unlocked.runs).toBe(3);
  });

  it.each(['observable', 'iterable'] as const)('refuse a stream that the method returned: %s', async (kind) => {
    const app = await startPrices();
    const sku = freshKey();
    const calls = [app.prices.later(sku, kind), app.prices.later(sku, kind)].map((call) => rejection(call));
    const [first, second] = await Promise.all(calls);
    expect(first).toBeInstanceOf(LockConfigurationError);
    expect(first!.message).toMatch(/^Prices\.later returned a stream, which is read once, but `ifBusy: 'share'`/);
    expect([second, app.prices.runs]).toEqual([first, kind === 'iterable' ? 11 : 1]);
    await untilFree(app, `price:${sku}`);
  });
});

class Jobs {
  async run(): Promise<void> {}
}
const RUN = Object.getOwnPropertyDescriptor(Jobs.prototype, 'run')!;

describe('the option `ifBusy: share`', () => {
  const refused = (decorate: () => unknown): string => {
    const error = thrownBy(decorate);
    expect(error).toBeInstanceOf(LockConfigurationError);
    return error.message;
  };

  it('is refused on a method whose type is a stream', () => {
    const onObservable = (): unknown => {
      class Feed {
        @Locked('feed', SHARE)
        read(): Observable<number> {
          return of(1);
        }
      }
      return Feed;
    };
    const onGenerator = (): unknown => {
      class Feed {
        @Locked('feed', SHARE)
        async *read(): AsyncGenerator<number> {
          yield 1;
        }
      }
      return Feed;
    };
    const text = "Feed.read: `ifBusy: 'share'` cannot share a stream, which is read once";
    for (const define of [onObservable, onGenerator]) expect(refused(define)).toContain(text);
  });

  it('is refused with `oncePer` and `waitMs: 0`', () => {
    const define = (options: object) => () => Locked('job', { ...SHARE, ...options })(Jobs.prototype, 'run', RUN);
    expect(refused(define({ oncePer: 60_000 }))).toContain("leave `ifBusy: 'share'` out");
    expect(refused(define({ waitMs: 0 }))).toContain('`waitMs: 0` leaves no time to share a result');
  });

  it('is refused for requests', () => {
    const text = refused(() => LockInterceptor.for('user:<0.params.id>', SHARE as never));
    expect(text).toContain('each request has its own answer, which cannot be shared');
  });
});
