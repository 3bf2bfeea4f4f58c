import type { LockedOptions } from '../interceptor/locked.options.js';
import type { KeyFunction, KeySpec } from '../keys/key-spec.js';
import type { IsAny, KeyTemplateError, NeededAt, PlainPlaceholders, TemplateOf } from '../keys/key-template.types.js';

/**
 * A method that can be locked: its result is asynchronous, because the call may wait for its lock. The lock is held until the
 * promise settles, or the Observable or async iterable ends.
 */
type LockableMethod = (...args: any[]) => PromiseLike<unknown> | ObservableResult | AsyncIterable<unknown>;

/** An Observable of any copy and version of rxjs. */
interface ObservableResult {
  subscribe(...args: any[]): unknown;
  pipe(...args: any[]): unknown;
}

/** A sentence about a result that is, or may be, a Node stream or a web stream; `never` for any other result. */
export type StreamError<R> =
  IsAny<R> extends true
    ? never
    : R extends ObservableResult
      ? never
      : R extends NodeStream | WebStream
        ? 'a locked method cannot return a stream: return an Observable, an async iterable, or a promise of the whole result'
        : never;

/**
 * Streams are also async iterables, but their readers do not call the lock. A stream inside a promise is refused only at
 * run time: `Promise<T>` in a generic class must compile, and its `T` may be a stream.
 */
interface NodeStream {
  pipe(...args: any[]): unknown;
  on(...args: any[]): unknown;
}

interface WebStream {
  getReader(...args: any[]): unknown;
}

/**
 * The decorator that `@Locked(key)` returns. It fails to compile on a method whose arguments cannot fill the key, or whose
 * result type lacks the result of a skipped call (`S`). It has a name for the declarations of custom decorators.
 *
 * `A` becomes the arguments of the method if a key function accepts them, and otherwise what it accepts. With this instead
 * of `ParametersOf<M> extends Accepted<...>`, a method of `class Base<T extends Entity>` may have a `T` in its arguments: a
 * conditional type ignores the constraint of a class's type parameter, a type argument does not.
 */
export interface LockedMethodDecorator<K extends KeySpec, S extends SkippedCall = never> {
  <M, A extends AcceptedBy<K>>(
    target: NoInfer<TargetFor<K, S, M, A, Seen<PlainPlaceholders<K>, S>, CannotCheck>>,
    name: string | symbol,
    descriptor: DescriptorOf<K, M, A>,
  ): void;
}

/**
 * `object` if the method `M` can be locked. Most methods resolve a promise, and most keys name only the first two arguments:
 * to check only these costs the compiler a fraction of the sentences. `N` has what this check must find.
 */
type TargetFor<K, S extends SkippedCall, M, A extends readonly unknown[], N, _Unknown> = M extends (
  first: infer First,
  second: infer Second,
  third: never,
  fourth: never,
  fifth: never,
  sixth: never,
  seventh: infer Seventh,
) => infer R
  ? Look<First, Second, Seventh, R> extends N
    ? object
    : CheckedTarget<K, S, M, A>
  : CheckedTarget<K, S, M, A>;

/** The seventh argument is `unknown` if there is none. For a rest parameter it has a type, and the first argument may be missing. */
interface Look<out First, out Second, in Seventh, out R> {
  readonly first: First;
  readonly second: Second;
  readonly seventh: (argument: Seventh) => void;
  readonly result: R;
}

/** What `Look` must find for the placeholders `P`; `never` if only the sentences can decide. */
type Seen<P extends string, S> = '!' extends P ? never : [S] extends [never] ? SeenPromise<P> : never;

type SeenPromise<P extends string> = Look<NeededAt<'0', P>, NeededAt<'1', P>, unknown, PlainPromise>;

/** A promise that is certainly no stream. */
interface PlainPromise extends PromiseLike<unknown> {
  readonly pipe?: never;
  readonly getReader?: never;
}

/** The class of the method, with a sentence for each mistake. */
type CheckedTarget<K, S extends SkippedCall, M, A extends readonly unknown[]> = M extends LockableMethod
  ? TargetOf<K, CannotCheck> &
      Checked<KeyError<K, A, ParametersOf<M>>, CannotCheck> &
      CheckedResult<StreamError<ReturnType<M>> | SkipError<S, M>, CannotCheckResult>
  : { readonly lockedResultError: NotLockable };

type NotLockable =
  'a locked method must return a promise, an Observable or an async iterable, because it may wait for its lock';

/** A sentence about a key that the arguments `P` cannot fill; `A` has the arguments that a key function accepts. */
type KeyError<K, A extends readonly unknown[], P extends readonly unknown[]> = [K] extends [KeyFunction]
  ? KeyFunctionError<K, A, P>
  : KeyTemplateError<TemplateOf<K>, P>;

/** For an argument of type `any`, a key function may take whatever TypeScript accepts. */
type KeyFunctionError<K, A extends readonly unknown[], P extends readonly unknown[]> = P extends A
  ? never
  : IsAny<P[number]> extends true
    ? K extends (...args: P) => unknown
      ? never
      : NotAccepted
    : NotAccepted;

type NotAccepted =
  'the key function does not accept the arguments of this method: one that is optional, or of a rest parameter, may be undefined';

/** Like `Parameters`, but also for a function whose rest parameter is a readonly array. */
type ParametersOf<F> = F extends (...args: infer P extends readonly any[]) => unknown ? P : never;

/** With a key function, the compiler also infers `A` from the method. */
type DescriptorOf<K, M, A extends readonly unknown[]> = K extends KeyFunction
  ? TypedPropertyDescriptor<M> & AnyDescriptor<A>
  : TypedPropertyDescriptor<M>;

/** Accepts any descriptor. */
interface AnyDescriptor<A extends readonly unknown[]> {
  readonly value?: ((...args: A) => unknown) | {};
}

type AcceptedBy<K> = K extends KeyFunction ? Readonly<Accepted<ParametersOf<K>>> : readonly any[];

/** What a function with the parameters `P` accepts: an argument that may be undefined may be absent, and more may follow. */
type Accepted<P extends readonly unknown[]> = P extends readonly [infer Head, ...infer Tail]
  ? [...(undefined extends Head ? [Head?] : [Head]), ...Accepted<Tail>]
  : number extends P['length']
    ? P
    : [...P, ...any[]];

/** The class of the method: any class, or the one that a key function declares as its `this`. */
type TargetOf<K, _Unknown> = K extends (this: infer T, ...args: any[]) => unknown
  ? unknown extends T
    ? object
    : T
  : object;

/**
 * The compiler shows this when it cannot decide, because a key or an argument has a type parameter of the class or of the
 * surrounding function.
 */
type CannotCheck =
  'the compiler cannot resolve a type parameter, in the key or in an argument: write the key `as string` (it is checked at run time then), or use a key function';

type CannotCheckResult = 'a skipped call may resolve undefined: type the result Promise<... | undefined>';

type Checked<E, _Unknown> = [E] extends [never] ? unknown : { readonly lockKeyError: E };

type CheckedResult<E, _Unknown> = [E] extends [never] ? unknown : { readonly lockedResultError: E };

export type IfBusy = NonNullable<LockedOptions['ifBusy']>;

export type OncePer = NonNullable<LockedOptions['oncePer']>;

export type IfUnavailable = NonNullable<LockedOptions['onUnavailable']>;

/** The options by which a call may be skipped; the compiler infers their literal values. */
export interface SkipOptions<B extends IfBusy, P extends OncePer, U extends IfUnavailable> {
  ifBusy?: B;
  oncePer?: P;
  onUnavailable?: U;
}

/** The option by which a decorated call may be skipped, and the result of the call then. */
export interface SkippedCall<By extends string = string, Answer = unknown> {
  readonly by: By;
  readonly answer: Answer;
}

/**
 * The ways in which these options may skip a call. An option that is left out, or known only by its type, is inferred as all
 * its values, and is not checked.
 */
export type SkippedBy<B extends IfBusy, P extends OncePer, U extends IfUnavailable> =
  | ([IfBusy] extends [B] ? never : SkippedIfBusy<B>)
  | ([OncePer] extends [P] ? never : SkippedCall<'oncePer', undefined>)
  | ([IfUnavailable] extends [U] ? never : U extends 'skip' ? SkippedCall<"onUnavailable: 'skip'", undefined> : never);

type SkippedIfBusy<B> = B extends 'skip'
  ? SkippedCall<"ifBusy: 'skip'", undefined>
  : B extends (...args: any[]) => infer Answer
    ? SkippedCall<'the function of ifBusy', AnswerOf<Answer>>
    : never;

/** What a function of `ifBusy` resolves to; `any` and `unknown` are unchecked, and one that only throws is `never`. */
type AnswerOf<R> = unknown extends R ? any : [R] extends [never] ? never : [R] extends [void] ? undefined : Awaited<R>;

/** A sentence about each option by which `M` may resolve to what its type does not allow; `never` for a stream. */
export type SkipError<S extends SkippedCall, M extends (...args: any[]) => unknown> = [S] extends [never]
  ? never
  : [Extract<ReturnType<M>, PromiseLike<unknown>>] extends [never]
    ? never
    : SkipErrorOf<S, M>;

/**
 * Checks whether a method that resolves only to the answer is assignable to `M`: the compiler can also decide that for the
 * `T` of a generic method or class.
 */
type SkipErrorOf<S, M> =
  S extends SkippedCall<infer By, infer Answer>
    ? ((...args: any[]) => Promise<Answer>) extends M
      ? never
      : [Answer] extends [undefined]
        ? `by ${By} a call may resolve undefined: type the result Promise<... | undefined>`
        : `${By} returns a value that the result type of this method lacks: type the result Promise<... | what it returns>`
    : never;
