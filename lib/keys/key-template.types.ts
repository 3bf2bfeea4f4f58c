import type { KeyPart } from './key-part.js';

/** A sentence for a brace, or for every placeholder that cannot be filled from the arguments `A`; `never` when all can. */
export type KeyTemplateError<T extends string, A extends readonly unknown[]> = [WithBrace<T>] extends [never]
  ? PlaceholderError<Placeholders<T>, A>
  : "{ and } fill nothing: write '<0>' for the first argument, '<0.id>' for a property of it";

/** A key whose arguments the compiler does not know: only its text is checked. */
export type KeyOfAny<K> = [KeyTemplateError<TemplateOf<K>, any[]>] extends [never]
  ? K
  : { readonly lockKeyError: KeyTemplateError<TemplateOf<K>, any[]> };

/** The templates of a key; `never` of a key function. */
export type TemplateOf<K> = K extends string ? K : K extends readonly string[] ? K[number] : never;

/** Braces are how others write a placeholder: `${id}` without backticks, `{0}`, `#{id}`. */
type WithBrace<T extends string> = T extends `${string}{${string}` | `${string}}${string}` ? T : never;

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
      ? NotAnArgument<P>
      : [V] extends [KeyPart]
        ? never
        : [V] extends [KeyPart | null]
          ? `<${P}> may be null: leave null out of its type, or use a key function`
          : [V] extends [KeyPart | null | undefined]
            ? `<${P}> may be undefined: make it required, as in [string, ...string[]] or { id: string }, or use a key function`
            : `<${P}> may be something else than a string, number, bigint or boolean`;

type NotAnArgument<P extends string> = P extends `${number}` | `${number}.${string}`
  ? `<${P}> is not an argument of this method`
  : `<${P}> is not an argument of this method: arguments are numbered, '<0>' is the first, '<0.id>' a property of it`;

/** The type at a dotted path; what may be missing on the way leaves its `undefined` in the result. */
type At<V, Path extends string> = Path extends `${infer Head}.${infer Tail}`
  ? At<Property<V, Head>, Tail>
  : Property<V, Path>;

type Property<V, K extends string> =
  (K extends keyof NonNullable<V> ? Known<NonNullable<V>, K> : Item<NonNullable<V>, K>) | Extract<V, null | undefined>;

/** What an index signature has for a name may be missing, whatever the compiler makes of it elsewhere. */
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

/** Whether a type is `any`, of which nothing is said. */
export type IsAny<V> = 0 extends 1 & V ? true : false;

/** Whether a text is known in full; `string` and `` `a${string}` `` are not, and cannot be checked. */
type IsLiteral<T extends string> = {} extends Record<T, 1> ? false : true;
