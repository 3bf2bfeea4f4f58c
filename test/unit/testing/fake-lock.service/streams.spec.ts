import { firstValueFrom, Observable, of, Subject } from 'rxjs';
import { currentLock, Locked, LockLostError, LockStoreError, LockWaitTimeoutError } from '../../../../lib/index.js';
import { FakeLockService, withFakeLocks } from '../../../../lib/testing/index.js';
import { eventually } from '../../../support/waiting/eventually.js';

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

let locks: FakeLockService;
let streams: Streams;

beforeEach(() => {
  locks = new FakeLockService();
  streams = withFakeLocks(new Streams(), locks);
});

describe('streams under fake locks', () => {
  it('acquire for each subscription, and release when they complete', async () => {
    expect(locks.keys).toEqual([]);
    const values = streams.values();
    expect([await firstValueFrom(values), await firstValueFrom(values)]).toEqual([1, 1]);
    expect([locks.keys, locks.activity.held]).toEqual([['values', 'values'], 0]);
  });

  it('fail when their lock cannot be acquired', async () => {
    locks.refuse('values').fail('items');
    await expect(firstValueFrom(streams.values())).rejects.toBeInstanceOf(LockWaitTimeoutError);
    await expect(streams.items().next()).rejects.toBeInstanceOf(LockStoreError);
  });

  it('end with a LockLostError when their lock is lost', async () => {
    streams.until = new Promise(() => undefined);
    const items = streams.items();
    expect(await items.next()).toEqual({ value: 'items', done: false });
    const next = items.next();
    expect(locks.lose('items')).toBe(1);
    await expect(next).rejects.toBeInstanceOf(LockLostError);
  });

  it('that never end are released when they have no subscribers left', async () => {
    class Ticks {
      readonly ticks = new Subject<number>();

      @Locked('ticks')
      values(): Observable<number> {
        return this.ticks;
      }
    }
    const object = withFakeLocks(new Ticks(), locks);
    const first = firstValueFrom(object.values());
    await eventually(() => object.ticks.observed);
    object.ticks.next(1);
    expect([await first, object.ticks.observed]).toEqual([1, false]);
  });
});
