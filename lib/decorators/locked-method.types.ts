import type { KeyFunction, KeySpec } from '../keys/key-spec.js';
import type { IsAny, KeyTemplateError, TemplateOf } from '../keys/key-template.types.js';
import type { SkipError, SkippedCall } from './skipped-call.types.js';

/**
 * A method that can be locked: its result comes later, since a lock has to be waited for. The lock is held until the
 * promise settles, or the Observable or the async iterable has ended.
 */
type LockableMethod = (...args: any[]) => PromiseLike<unknown> | ObservableResult | AsyncIterable<unknown>;

/** An Observable of any copy and version of rxjs. */
interface ObservableResult {
  subscribe(...args: any[]): unknown;
  pipe(...args: any[]): unknown;
}

/** A sentence for a result that is (or may be) a stream of Node or of the web; `never` for any other. */
export type StreamError<R> =
  IsAny<R> extends true
    ? never
    : R extends ObservableResult
      ? never
      : R extends NodeStream | WebStream
        ? 'a locked method cannot return a stream: return an Observable, an async iterable, or a promise of the whole result'
        : never;

/**
 * Streams are async iterables, too, but are read by what knows nothing of the lock. What is inside a promise is refused
 * at run time only: whether `T` in `Promise<T>` of a generic class is a stream is not known, and it must compile.
 */
interface NodeStream {
  pipe(...args: any[]): unknown;
  on(...args: any[]): unknown;
}

interface WebStream {
  getReader(...args: any[]): unknown;
}

/**
 * The decorator that `@Locked(key)` gives; it does not compile on a method whose arguments cannot fill the key, nor where a
 * call that is skipped resolves to what the method does not promise (`S`). Named, so that declarations of a user's own
 * decorators can say it.
 *
 * `A` becomes the arguments of the method where a key function accepts them, and else what it accepts. This way, and
 * not by asking whether `ParametersOf<M> extends Accepted<...>`, a method of `class Base<T extends Entity>` may have a
 * `T` in its arguments: a conditional type does not look at the constraint of a class's type parameter, a type argument
 * does.
 */
export interface LockedMethodDecorator<K extends KeySpec, S extends SkippedCall = never> {
  <M extends LockableMethod, A extends AcceptedBy<K>>(
    target: TargetOf<K, CannotCheck>,
    name: string | symbol,
    descriptor: TypedPropertyDescriptor<M> &
      InferredFrom<K, A> &
      Checked<KeyError<K, A, ParametersOf<M>>, CannotCheck> &
      CheckedResult<StreamError<ReturnType<M>>, never> &
      CheckedResult<SkipError<S, M>, CannotCheckResult>,
  ): void;
}

/** A sentence for a key that the arguments `P` cannot fill; `A`: as far as a key function accepts them. */
type KeyError<K, A extends readonly unknown[], P extends readonly unknown[]> = [K] extends [KeyFunction]
  ? KeyFunctionError<K, A, P>
  : KeyTemplateError<TemplateOf<K>, P>;

/** Where an argument is `any`, a key function may have what TypeScript lets it have. */
type KeyFunctionError<K, A extends readonly unknown[], P extends readonly unknown[]> = P extends A
  ? never
  : IsAny<P[number]> extends true
    ? K extends (...args: P) => unknown
      ? never
      : NotAccepted
    : NotAccepted;

type NotAccepted =
  'the key function does not accept the arguments of this method: one that is optional, or of a rest parameter, may be undefined';

/** Unlike `Parameters`, also of a function whose rest parameter is a readonly array. */
type ParametersOf<F> = F extends (...args: infer P extends readonly any[]) => unknown ? P : never;

/** Takes any descriptor, and has the compiler infer `A` from its method. */
type InferredFrom<K, A extends readonly unknown[]> = [K] extends [KeyFunction] ? AnyDescriptor<A> : unknown;

interface AnyDescriptor<A extends readonly unknown[]> {
  readonly value?: ((...args: A) => unknown) | {};
}

type AcceptedBy<K> = K extends KeyFunction ? Readonly<Accepted<ParametersOf<K>>> : readonly any[];

/** What a function with the parameters `P` accepts: what may be undefined may be absent, and more may follow. */
type Accepted<P extends readonly unknown[]> = P extends readonly [infer Head, ...infer Tail]
  ? [...(undefined extends Head ? [Head?] : [Head]), ...Accepted<Tail>]
  : number extends P['length']
    ? P
    : [...P, ...any[]];

/** The class of the method: any, or the one that a key function declares as its `this`. */
type TargetOf<K, _Unknown> = K extends (this: infer T, ...args: any[]) => unknown
  ? unknown extends T
    ? object
    : T
  : object;

/**
 * What the compiler shows where it cannot decide, because a key or an argument has a type parameter of the class or of the
 * function around it: it then names the type and what it was given.
 */
type CannotCheck =
  'the compiler cannot look into a type parameter, in the key or in an argument: write the key `as string` (it is checked at run time then), or use a key function';

type CannotCheckResult = 'a skipped call may resolve undefined: type the result Promise<... | undefined>';

type Checked<E, _Unknown> = [E] extends [never] ? unknown : { readonly lockKeyError: E };

type CheckedResult<E, _Unknown> = [E] extends [never] ? unknown : { readonly lockedResultError: E };
