import type { LockedOptions } from '../interceptor/locked.options.js';

/** A value of `ifBusy`. */
export type IfBusy = NonNullable<LockedOptions['ifBusy']>;

/** A value of `oncePer`. */
export type OncePer = NonNullable<LockedOptions['oncePer']>;

/** A value of `onUnavailable`. */
export type IfUnavailable = NonNullable<LockedOptions['onUnavailable']>;

/** The options by which a call may be skipped; the compiler infers their literal values. */
export interface SkipOptions<B extends IfBusy, P extends OncePer, U extends IfUnavailable> {
  ifBusy?: B;
  oncePer?: P;
  onUnavailable?: U;
}

/** By which option a decorated call may be skipped, and what it resolves to then. */
export interface SkippedCall<By extends string = string, Answer = unknown> {
  readonly by: By;
  readonly answer: Answer;
}

/**
 * The ways in which these options may skip a call. An option that is left out, or known only by its type, is inferred as all
 * of its values, and is not checked.
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
 * Checks whether a method that resolves to the answer alone is assignable to `M`: the compiler decides that also for the
 * `T` of a generic method or class.
 */
type SkipErrorOf<S, M> =
  S extends SkippedCall<infer By, infer Answer>
    ? ((...args: any[]) => Promise<Answer>) extends M
      ? never
      : [Answer] extends [undefined]
        ? `by ${By} a call may resolve undefined: type the result Promise<... | undefined>`
        : `${By} returns what the result type of this method lacks: type the result Promise<... | what it returns>`
    : never;
