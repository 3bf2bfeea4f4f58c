import type { Observable } from 'rxjs';
import type { IfUnavailable, OncePer, SkipError, SkippedBy } from '../../lib/decorators/skipped-call.types.js';
import { Limited } from '../../lib/decorators/limited.decorator.js';
import { Locked } from '../../lib/decorators/locked.decorator.js';
import { ReadLocked } from '../../lib/decorators/read-locked.decorator.js';
import { WriteLocked } from '../../lib/decorators/write-locked.decorator.js';
import type { LockedOptions } from '../../lib/interceptor/locked.options.js';
import type { KeySpec } from '../../lib/keys/key-spec.js';
import type { LockedMethodDecorator } from '../../lib/decorators/locked-method.types.js';
import { check, type Order, type Same } from './support.js';

declare const anything: any;
declare const options: LockedOptions;

const SKIP = { ifBusy: 'skip' } as const;

/** A method may be skipped where its result admits what a skipped call gives. */
export class Accepted<T> {
  @Locked('k', { ifBusy: 'skip' })
  async nothing(): Promise<void> {}

  @Locked('k', { ifBusy: 'skip' })
  async perhaps(): Promise<string | undefined> {
    return 'ran';
  }

  @Locked('k', { ifBusy: 'skip' })
  async unknown(): Promise<unknown> {
    return 'ran';
  }

  @Locked('k', { ifBusy: 'skip' })
  async any(): Promise<any> {}

  @Locked('k', { ifBusy: 'skip' })
  untyped() {
    return anything;
  }

  @Locked('k', { ifBusy: 'skip' })
  thenable(): PromiseLike<void> {
    return anything;
  }

  @Locked('k', { ifBusy: 'skip' })
  async ofTheClass(): Promise<T | undefined> {
    return anything;
  }

  @Locked('k', { ifBusy: 'skip' })
  async generic<U>(_value: U): Promise<U | undefined> {
    return anything;
  }

  /** A stream that is skipped ends without a value. */
  @Locked('k', { ifBusy: 'skip' })
  observable(): Observable<Order> {
    return anything;
  }

  @Locked('k', { onUnavailable: 'skip', ifBusy: 'skip' })
  async *iterable(): AsyncGenerator<Order> {
    yield anything;
  }

  @Locked('job', { oncePer: 'fire' })
  async job(): Promise<void> {}

  @Locked('job', { oncePer: 60_000, ifBusy: 'wait' })
  async slot(): Promise<number | void> {}

  @Locked('k', { onUnavailable: 'skip' })
  async unavailable(): Promise<string | undefined> {
    return 'ran';
  }

  @Locked('k', { ifBusy: 'throw', onUnavailable: 'run-unlocked' })
  async neverSkipped(): Promise<Order> {
    return anything;
  }

  /** Whoever shares a result gets one. */
  @Locked('k', { ifBusy: 'share' })
  async shared(): Promise<Order> {
    return anything;
  }

  @Locked('k', { ifBusy: 'wait', onUnavailable: 'fail', waitMs: 5 })
  async waiting(): Promise<Order> {
    return anything;
  }

  @Locked('k:<0>', { ifBusy: (key, id: string) => `${key} ${id}` })
  async answered(_id: string): Promise<string> {
    return 'ran';
  }

  @Locked('k', { ifBusy: async () => 7 })
  async answeredLater(): Promise<string | number> {
    return 'ran';
  }

  @Locked('k', {
    ifBusy: () => {
      throw new Error('busy');
    },
  })
  async thrown(): Promise<Order> {
    return anything;
  }

  @Locked('k', { ifBusy: (key): unknown => key })
  async answeredUnknown(): Promise<Order> {
    return anything;
  }

  /** What is known by its type only is not checked. */
  @Locked('k', options)
  async dynamic(): Promise<Order> {
    return anything;
  }

  @Locked('k', { ...options, waitMs: 0 })
  async spread(): Promise<Order> {
    return anything;
  }

  @Limited('k', 5, { ifBusy: 'skip' })
  async limited(): Promise<void> {}

  @ReadLocked('k', SKIP)
  async read(): Promise<void> {}

  @WriteLocked('k', { ifBusy: 'skip', waitMs: 0 })
  async written(): Promise<void> {}
}

/** Nothing here may compile. */
export class Refused<T> {
  // @ts-expect-error no undefined
  @Locked('k', { ifBusy: 'skip' })
  async text(): Promise<string> {
    return 'ran';
  }

  // @ts-expect-error no undefined, as the compiler infers it
  @Locked('k', { ifBusy: 'skip' })
  async inferred() {
    return 7;
  }

  // @ts-expect-error null is another
  @Locked('k', { ifBusy: 'skip' })
  async null(): Promise<string | null> {
    return null;
  }

  // @ts-expect-error only one of two kinds of result is a stream
  @Locked('k', { ifBusy: 'skip' })
  promiseOrStream(): Promise<string> | Observable<string> {
    return anything;
  }

  // @ts-expect-error the promise of a stream is skipped as a promise
  @Locked('k', { ifBusy: 'skip' })
  async promiseOfStream(): Promise<Observable<string>> {
    return anything;
  }

  // @ts-expect-error whether T has undefined is not known
  @Locked('k', { ifBusy: 'skip' })
  async ofTheClass(): Promise<T> {
    return anything;
  }

  // @ts-expect-error whether U has undefined is not known
  @Locked('k', { ifBusy: 'skip' })
  async generic<U>(_value: U): Promise<U> {
    return anything;
  }

  // @ts-expect-error only sometimes skipped
  @Locked('k', { ifBusy: anything ? 'skip' : 'wait' })
  async sometimes(): Promise<string> {
    return 'ran';
  }

  // @ts-expect-error a constant
  @Locked('k', SKIP)
  async constant(): Promise<string> {
    return 'ran';
  }

  // @ts-expect-error other instances resolve undefined
  @Locked('job', { oncePer: 'fire' })
  async job(): Promise<string> {
    return 'ran';
  }

  // @ts-expect-error other instances resolve undefined, also of a slot
  @Locked('job', { oncePer: 60_000, ifBusy: 'wait' })
  async slot(): Promise<number> {
    return 7;
  }

  // @ts-expect-error without Redis it resolves undefined
  @Locked('k', { onUnavailable: 'skip' })
  async unavailable(): Promise<string> {
    return 'ran';
  }

  // @ts-expect-error a number for a text
  @Locked('k', { ifBusy: () => 7 })
  async answered(): Promise<string> {
    return 'ran';
  }

  // @ts-expect-error nothing for a text
  @Locked('k', { ifBusy: () => {} })
  async answeredNothing(): Promise<string> {
    return 'ran';
  }

  // @ts-expect-error a semaphore
  @Limited('k', 5, { ifBusy: 'skip' })
  async limited(): Promise<string> {
    return 'ran';
  }

  // @ts-expect-error a reader
  @ReadLocked('k', { ifBusy: 'skip' })
  async read(): Promise<string> {
    return 'ran';
  }

  // @ts-expect-error a writer
  @WriteLocked('k', { onUnavailable: 'skip' })
  async written(): Promise<string> {
    return 'ran';
  }

  // @ts-expect-error a key function
  @Locked((id: string) => id, { ifBusy: 'skip' })
  async keyFunction(_id: string): Promise<string> {
    return 'ran';
  }

  // @ts-expect-error no such option
  @Locked('k', { ifbusy: 'skip' })
  async misspelt(): Promise<void> {}

  // @ts-expect-error no such value
  @Locked('k', { ifBusy: 'skp' })
  async noSuchValue(): Promise<void> {}

  // @ts-expect-error returns nothing in its turn
  @Locked('k', { ifBusy: 'skip' })
  nothing(): void {}
}

/** A decorator of one's own with options of its own keeps the check, one that is given its options cannot. */
const SkipLock = <const K extends KeySpec>(key: K) => Locked(key, { ifBusy: 'skip' });
const AnyLock = <const K extends KeySpec>(key: K, given?: LockedOptions): LockedMethodDecorator<K> =>
  Locked(key, given);

export class Own {
  @SkipLock('order:<0.id>')
  async kept(_order: Order): Promise<void> {}

  // @ts-expect-error no undefined
  @SkipLock('order:<0.id>')
  async refused(order: Order): Promise<string> {
    return order.id;
  }

  @AnyLock('order:<0.id>', { ifBusy: 'skip' })
  async given(order: Order): Promise<string> {
    return order.id;
  }
}

/** What the compiler shows, as `Property 'lockedResultError' is missing ...`, for each option. */
type SkipIfBusy = SkippedBy<'skip', OncePer, IfUnavailable>;
type Undefined<By extends string> = `by ${By} a call may resolve undefined: type the result Promise<... | undefined>`;
type Text = () => Promise<string>;
check<Same<SkipError<SkippedBy<'skip', 'fire', 'skip'>, () => Promise<void>>, never>>();
check<Same<SkipError<SkippedBy<'wait' | 'throw', any, 'fail'>, Text>, never>>();
check<
  Same<
    SkipError<SkippedBy<'skip', 'fire', 'skip'>, Text>,
    Undefined<"ifBusy: 'skip'"> | Undefined<'oncePer'> | Undefined<"onUnavailable: 'skip'">
  >
>();
check<
  Same<
    SkipError<SkippedBy<() => number, any, 'fail'>, Text>,
    'the function of ifBusy returns what the result type of this method lacks: type the result Promise<... | what it returns>'
  >
>();

/** The checker itself can fail. */
// @ts-expect-error a sentence
check<Same<SkipError<SkipIfBusy, Text>, never>>();
