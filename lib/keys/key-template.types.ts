import type { KeyPart } from './lock-key.js';

/** A sentence about a brace, or about each placeholder that the arguments `A` cannot fill; `never` if they fill all. */
export type KeyTemplateError<T extends string, A extends readonly unknown[]> =
  A extends NeedsOfAll<T> ? never : KeyTemplateMistake<T, A>;

/** The sentences. They cost the compiler much more than a plain check, and few keys have a mistake. */
type KeyTemplateMistake<T extends string, A extends readonly unknown[]> = [WithBrace<T>] extends [never]
  ? PlaceholderError<Placeholders<T>, A>
  : "{ and } fill nothing: write '<0>' for the first argument, '<0.id>' for a property of it";

/** The arguments that certainly fill all placeholders of all these templates. */
type NeedsOfAll<T extends string> = (T extends unknown ? (needs: Needs<T>) => void : never) extends (
  needs: infer N,
) => void
  ? N
  : never;

/** `{ 0: { id: KeyPart } }` for `'a:<0.id>'`; `never` for a template with a mistake. */
type Needs<T extends string> = [WithBrace<T>] extends [never] ? NeedsOfPlaceholders<T> : never;

type NeedsOfPlaceholders<T extends string> = T extends `${string}<${infer Rest}`
  ? Rest extends `<${infer Next}`
    ? NeedsOfPlaceholders<Next>
    : Rest extends `${infer P}>${infer Next}`
      ? Need<P> & NeedsOfPlaceholders<Next>
      : never
  : unknown;

type Need<Path extends string> = Path extends `${infer Head}.${infer Tail}`
  ? { readonly [K in Head]: Need<Tail> }
  : { readonly [K in Path]: KeyPart };

/** The placeholders `'0'` and `'1.id'` of `'a:<0>:<1.id>'`; with `'!'` for a key that needs further checks. */
export type PlainPlaceholders<K> = K extends Brace
  ? '!'
  : K extends string
    ? PlainPlaceholdersOf<K>
    : K extends readonly string[]
      ? PlainPlaceholdersOfItems<K>
      : '!';

/** Infers the item, because the item of an `any` is endlessly `any`. */
type PlainPlaceholdersOfItems<K extends readonly string[]> = K extends readonly (infer T)[]
  ? PlainPlaceholders<T>
  : '!';

type PlainPlaceholdersOf<T extends string> = T extends `${string}<${infer P}>${infer Rest}`
  ? (P extends '0' | '1' | `0.${string}` | `1.${string}` ? P : '!') | PlainPlaceholdersOf<Rest>
  : T extends `${string}<${string}`
    ? '!'
    : never;

/** What an argument must be to fill all of these placeholders that begin with its index. */
export type NeededAt<Index extends string, P extends string> = (
  P extends unknown ? (needs: NeedAt<Index, P>) => void : never
) extends (needs: infer N) => void
  ? N
  : never;

type NeedAt<Index extends string, P extends string> = P extends Index
  ? KeyPart
  : P extends `${Index}.${infer Path}`
    ? Need<Path>
    : unknown;

/** A key with arguments that the compiler cannot check: only its text is checked. */
export type KeyOfAny<K> = [KeyTemplateError<TemplateOf<K>, any[]>] extends [never]
  ? K
  : { readonly lockKeyError: KeyTemplateError<TemplateOf<K>, any[]> };

/** The templates of a key; `never` for a key function. */
export type TemplateOf<K> = K extends string ? K : K extends readonly string[] ? K[number] : never;

/** Other libraries write placeholders with braces: `${id}` without backticks, `{0}`, `#{id}`. */
type WithBrace<T extends string> = T extends Brace ? T : never;

type Brace = `${string}{${string}` | `${string}}${string}`;

/** The placeholders of a template: `'0' | '1.id'` for `'a:<0>:<1.id>'`; `<<` is a literal `<`. */
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
      ? NotAnArgument<P>
      : [V] extends [KeyPart]
        ? never
        : [V] extends [KeyPart | null]
          ? `<${P}> may be null: leave null out of its type, or use a key function`
          : [V] extends [KeyPart | null | undefined]
            ? `<${P}> may be undefined: make it required, as in [string, ...string[]] or { id: string }, or use a key function`
            : `<${P}> may be something other than a string, number, bigint or boolean`;

type NotAnArgument<P extends string> = P extends `${number}` | `${number}.${string}`
  ? `<${P}> is not an argument of this method`
  : `<${P}> is not an argument of this method: arguments are numbered, '<0>' is the first, '<0.id>' a property of it`;

/** The type at a dotted path; a part that may be missing leaves its `undefined` in the result. */
type At<V, Path extends string> = Path extends `${infer Head}.${infer Tail}`
  ? At<Property<V, Head>, Tail>
  : Property<V, Path>;

type Property<V, K extends string> =
  (K extends keyof NonNullable<V> ? Known<NonNullable<V>, K> : Item<NonNullable<V>, K>) | Extract<V, null | undefined>;

/** A property of an index signature may be missing, whatever the compiler options. */
type Known<V, K extends keyof V> = V extends { [P in K]: unknown } ? V[K] : V[K] | undefined;

/** The item of an open-ended array, such as a rest parameter, which may be shorter. */
type Item<V, K extends string> = V extends readonly (infer I)[]
  ? number extends V['length']
    ? K extends `-${string}`
      ? never
      : K extends `${number}`
        ? I | undefined
        : never
    : never
  : never;

/** Whether a type is `any`, which is not checked. */
export type IsAny<V> = 0 extends 1 & V ? true : false;

/** Whether a text is fully known; `string` and `` `a${string}` `` are not, and cannot be checked. */
type IsLiteral<T extends string> = {} extends Record<T, 1> ? false : true;
