import type { Observable } from 'rxjs';
import { Limited, Locked, ReadLocked, WriteLocked } from '../../lib/decorators/locked.decorator.js';
import type { LockedOptions } from '../../lib/interceptor/locked.options.js';
import type { KeySpec } from '../../lib/keys/key-spec.js';
import type {
  IfUnavailable,
  LockedMethodDecorator,
  OncePer,
  SkipError,
  SkippedBy,
} from '../../lib/decorators/locked-method.types.js';
import { check, method, type Order, type Same } from './support.js';

declare const anything: any;
declare const options: LockedOptions;

const SKIP = { ifBusy: 'skip' } as const;

/** A method may be skipped where its result type admits the result of a skipped call. */
export class Accepted<T> {
  @Locked('k', { ifBusy: 'skip' })
  untyped() {
    return anything;
  }

  @Locked('k', { ifBusy: 'skip' })
  async ofTheClass(): Promise<T | undefined> {
    return anything;
  }

  @Locked('k', { onUnavailable: 'skip', ifBusy: 'skip' })
  async *iterable(): AsyncGenerator<Order> {
    yield anything;
  }

  @Locked('k', {
    ifBusy: () => {
      throw new Error('busy');
    },
  })
  async thrown(): Promise<Order> {
    return anything;
  }
}

Locked('k', { ifBusy: 'skip' })(...method<() => Promise<void>>());
Locked('k', { ifBusy: 'skip' })(...method<() => Promise<string | undefined>>());
Locked('k', { ifBusy: 'skip' })(...method<() => Promise<unknown>>());
Locked('k', { ifBusy: 'skip' })(...method<() => Promise<any>>());
Locked('k', { ifBusy: 'skip' })(...method<() => PromiseLike<void>>());
Locked('k', { ifBusy: 'skip' })(...method<<U>(value: U) => Promise<U | undefined>>());
/** A stream that is skipped ends without a value. */
Locked('k', { ifBusy: 'skip' })(...method<() => Observable<Order>>());
Locked('job', { oncePer: 'fire' })(...method<() => Promise<void>>());
Locked('job', { oncePer: 60_000, ifBusy: 'wait' })(...method<() => Promise<number | void>>());
Locked('k', { onUnavailable: 'skip' })(...method<() => Promise<string | undefined>>());
Locked('k', { ifBusy: 'throw', onUnavailable: 'run-unlocked' })(...method<() => Promise<Order>>());
/** A call that shares a result gets one. */
Locked('k', { ifBusy: 'share' })(...method<() => Promise<Order>>());
Locked('k', { ifBusy: 'wait', onUnavailable: 'fail', waitMs: 5 })(...method<() => Promise<Order>>());
Locked('k:<0>', { ifBusy: (key, id: string) => `${key} ${id}` })(...method<(id: string) => Promise<string>>());
Locked('k', { ifBusy: async () => 7 })(...method<() => Promise<string | number>>());
Locked('k', { ifBusy: (key): unknown => key })(...method<() => Promise<Order>>());
/** Options that are known only by their type are not checked. */
Locked('k', options)(...method<() => Promise<Order>>());
Locked('k', { ...options, waitMs: 0 })(...method<() => Promise<Order>>());
Limited('k', 5, { ifBusy: 'skip' })(...method<() => Promise<void>>());
ReadLocked('k', SKIP)(...method<() => Promise<void>>());
WriteLocked('k', { ifBusy: 'skip', waitMs: 0 })(...method<() => Promise<void>>());

/** Nothing here may compile. */
export class Refused<T> {
  // @ts-expect-error no undefined, as the compiler infers it
  @Locked('k', { ifBusy: 'skip' })
  async inferred() {
    return 7;
  }

  // @ts-expect-error whether T has undefined is not known
  @Locked('k', { ifBusy: 'skip' })
  async ofTheClass(): Promise<T> {
    return anything;
  }
}

// @ts-expect-error no undefined
Locked('k', { ifBusy: 'skip' })(...method<() => Promise<string>>());
// @ts-expect-error null is another
Locked('k', { ifBusy: 'skip' })(...method<() => Promise<string | null>>());
// @ts-expect-error only one of two kinds of result is a stream
Locked('k', { ifBusy: 'skip' })(...method<() => Promise<string> | Observable<string>>());
// @ts-expect-error the promise of a stream is skipped as a promise
Locked('k', { ifBusy: 'skip' })(...method<() => Promise<Observable<string>>>());
// @ts-expect-error whether U has undefined is not known
Locked('k', { ifBusy: 'skip' })(...method<<U>(value: U) => Promise<U>>());
// @ts-expect-error only sometimes skipped
Locked('k', { ifBusy: anything ? 'skip' : 'wait' })(...method<() => Promise<string>>());
// @ts-expect-error a constant
Locked('k', SKIP)(...method<() => Promise<string>>());
// @ts-expect-error other instances resolve undefined
Locked('job', { oncePer: 'fire' })(...method<() => Promise<string>>());
// @ts-expect-error other instances resolve undefined, also of a slot
Locked('job', { oncePer: 60_000, ifBusy: 'wait' })(...method<() => Promise<number>>());
// @ts-expect-error without Redis it resolves undefined
Locked('k', { onUnavailable: 'skip' })(...method<() => Promise<string>>());
// @ts-expect-error a number for a text
Locked('k', { ifBusy: () => 7 })(...method<() => Promise<string>>());
// @ts-expect-error nothing for a text
Locked('k', { ifBusy: () => {} })(...method<() => Promise<string>>());
// @ts-expect-error a semaphore
Limited('k', 5, { ifBusy: 'skip' })(...method<() => Promise<string>>());
// @ts-expect-error a reader
ReadLocked('k', { ifBusy: 'skip' })(...method<() => Promise<string>>());
// @ts-expect-error a writer
WriteLocked('k', { onUnavailable: 'skip' })(...method<() => Promise<string>>());
// @ts-expect-error a key function
Locked((id: string) => id, { ifBusy: 'skip' })(...method<(id: string) => Promise<string>>());
// @ts-expect-error no such option
Locked('k', { ifbusy: 'skip' })(...method<() => Promise<void>>());
// @ts-expect-error no such value
Locked('k', { ifBusy: 'skp' })(...method<() => Promise<void>>());
// @ts-expect-error returns nothing in its turn
Locked('k', { ifBusy: 'skip' })(...method<() => void>());

/** A custom decorator with fixed options keeps the check, one that gets its options as an argument cannot. */
const SkipLock = <const K extends KeySpec>(key: K) => Locked(key, { ifBusy: 'skip' });
const AnyLock = <const K extends KeySpec>(key: K, given?: LockedOptions): LockedMethodDecorator<K> =>
  Locked(key, given);

export class Own {}

SkipLock('order:<0.id>')(...method<(order: Order) => Promise<void>>());
// @ts-expect-error no undefined
SkipLock('order:<0.id>')(...method<(order: Order) => Promise<string>>());
AnyLock('order:<0.id>', { ifBusy: 'skip' })(...method<(order: Order) => Promise<string>>());

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
    'the function of ifBusy returns a value that the result type of this method lacks: type the result Promise<... | what it returns>'
  >
>();

/** The checker itself can fail. */
// @ts-expect-error a sentence
check<Same<SkipError<SkipIfBusy, Text>, never>>();
