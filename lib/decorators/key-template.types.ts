import type { KeyFunction, KeySpec } from '../keys/key-spec.js';

/** What may stand in a key: something with one stable string form. */
export type KeyPart = string | number | bigint | boolean;

/**
 * A method that can be locked: its result comes later, since a lock has to be waited for. The lock is held until the
 * promise settles, or the Observable or the async iterable has ended.
 */
export type LockableMethod = (...args: any[]) => PromiseLike<unknown> | ObservableResult | AsyncIterable<unknown>;

/** An Observable of any copy and version of rxjs. */
export interface ObservableResult {
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

/** The decorator that `@Locked(key)` gives; it does not compile on a method whose arguments cannot fill the key. */
export type LockedMethodDecorator<K extends KeySpec> = [K] extends [KeyFunction]
  ? LockedByFunction<K>
  : LockedByTemplate<K>;

/** A sentence for every placeholder that cannot be filled from the arguments `A`; `never` when all can. */
export type KeyTemplateError<T extends string, A extends readonly unknown[]> = PlaceholderError<Placeholders<T>, A>;

/** The decorator of a key template, or of several. Named, so that declarations of a user's own decorators can say it. */
export interface LockedByTemplate<K> {
  <M extends LockableMethod>(
    target: object,
    name: string | symbol,
    descriptor: TypedPropertyDescriptor<M> &
      Checked<KeyTemplateError<TemplateOf<K>, ParametersOf<M>>> &
      CheckedResult<StreamError<ReturnType<M>>>,
  ): void;
}

type TemplateOf<K> = K extends string ? K : K extends readonly string[] ? K[number] : never;

/**
 * `A` becomes the arguments of the method where the key function accepts them, and else what it accepts. This way, and
 * not by asking whether `ParametersOf<M> extends Accepted<...>`, a method of `class Base<T extends Entity>` may have a `T` in its
 * arguments: a conditional type does not look at the constraint of a class's type parameter, a type argument does.
 */
export interface LockedByFunction<K extends KeyFunction> {
  <M extends LockableMethod, A extends Readonly<Accepted<ParametersOf<K>>>>(
    target: This<K>,
    name: string | symbol,
    descriptor: TypedPropertyDescriptor<M> &
      InferredFrom<A> &
      Checked<ParametersOf<M> extends A ? never : KeyFunctionError> &
      CheckedResult<StreamError<ReturnType<M>>>,
  ): void;
}

/** Unlike `Parameters`, also of a function whose rest parameter is a readonly array. */
type ParametersOf<F> = F extends (...args: infer P extends readonly any[]) => unknown ? P : never;

type KeyFunctionError = 'the key function does not accept the arguments of this method';

/** Takes any descriptor, and has the compiler infer `A` from its method. */
interface InferredFrom<A extends readonly unknown[]> {
  readonly value?: ((...args: A) => unknown) | {};
}

/** What a function with the parameters `P` accepts: what may be undefined may be absent, and more may follow. */
type Accepted<P extends readonly unknown[]> = P extends readonly [infer Head, ...infer Tail]
  ? [...(undefined extends Head ? [Head?] : [Head]), ...Accepted<Tail>]
  : number extends P['length']
    ? P
    : [...P, ...any[]];

/** The class of the method: any, or the one that a key function declares as its `this`. */
type This<K> = K extends (this: infer T, ...args: any[]) => unknown ? (unknown extends T ? object : T) : object;

type Checked<E> = [E] extends [never] ? unknown : { readonly lockKeyError: E };

type CheckedResult<E> = [E] extends [never] ? unknown : { readonly lockedResultError: E };

/** The placeholders of a template: `'a:<0>:<1.id>'` gives `'0' | '1.id'`; `<<` is a literal `<`. */
type Placeholders<T extends string> = T extends `${string}<${infer Rest}`
  ? Rest extends `<${infer Next}`
    ? Placeholders<Next>
    : Rest extends `${infer P}>${infer Next}`
      ? P | Placeholders<Next>
      : Unclosed<Rest>
  : never;

interface Unclosed<Rest extends string> {
  readonly rest: Rest;
}

type PlaceholderError<P, A extends readonly unknown[]> =
  P extends Unclosed<infer Rest>
    ? IsLiteral<Rest> extends true
      ? `<${Rest} is not closed with >`
      : never
    : P extends string
      ? IsLiteral<P> extends true
        ? ValueError<P, At<A, P>>
        : never
      : never;

type ValueError<P extends string, V> =
  IsAny<V> extends true
    ? never
    : [V] extends [never]
      ? `<${P}> is not an argument of this method`
      : [V] extends [KeyPart]
        ? never
        : `<${P}> may be something else than a string, number, bigint or boolean`;

/** The type at a dotted path; an optional step on the way leaves its `undefined` in the result. */
type At<V, Path extends string> = Path extends `${infer Head}.${infer Tail}`
  ? At<Property<V, Head>, Tail>
  : Property<V, Path>;

type Property<V, K extends string> =
  (K extends keyof NonNullable<V> ? NonNullable<V>[K] : Item<NonNullable<V>, K>) | Extract<V, null | undefined>;

/** The item of an open-ended array, such as a rest parameter. */
type Item<V, K extends string> = V extends readonly (infer I)[]
  ? number extends V['length']
    ? K extends `-${string}`
      ? never
      : K extends `${number}`
        ? I
        : never
    : never
  : never;

type IsAny<V> = 0 extends 1 & V ? true : false;

/** Whether a text is known in full; `string` and `` `a${string}` `` are not, and cannot be checked. */
type IsLiteral<T extends string> = {} extends Record<T, 1> ? false : true;
