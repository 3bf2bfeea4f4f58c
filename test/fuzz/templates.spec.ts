import * as fc from 'fast-check';
import { LockConfigurationError, LockKeyError, Locked, lockKey } from '../../lib/index.js';
import { parseKeyTemplate } from '../../lib/keys/key-spec.js';
import { checkIsTyped, fuzz, outcomeOf, part } from './support/area.js';
import { Named, anyValue, named, oddValue } from './support/values.js';

const text = fc
  .array(fc.constantFrom('<0>', '<1>', '<0.id>', '<0.id.id>', '<0.constructor.name>', '<0.__proto__>', '<0.length>', '<<', '<', '>', '<x>', '<-1>', '<0.>',
    '<99999999999999999999>', ':', '-', 'a', '1', '%', '{', '}', '\uD800', '\0', '\n', ' ', '${id}'), { maxLength: 6 })
  .map((parts) => parts.join('')); // prettier-ignore

const argument = fc.oneof(
  anyValue,
  fc.tuple(fc.constantFrom('id', 'length', 'constructor'), oddValue).map(([name, inner]) => objectOf(name, inner)),
);

const objectOf = (name: string, inner: Named): Named =>
  new Named(`{ ${name}: ${inner.name} }`, () => ({ [name]: inner.make() }));

interface Fill {
  readonly template: string;
  readonly args: readonly Named[];
}

const fill: fc.Arbitrary<Fill> = fc.record({ template: text, args: fc.array(argument, { maxLength: 2 }) });

/** A key has no value in it that means nothing, or differs from call to call. */
const isKey = (value: unknown): boolean =>
  typeof value === 'string' && value !== '' && !/\[object |undefined|NaN/.test(value);

async function checkFill({ template, args }: Fill): Promise<void> {
  const values = args.map(({ make }) => make());
  const outcome = await outcomeOf(() => parseKeyTemplate(template, 'Jobs.run')(values));
  const own = 'error' in outcome ? ownErrorOf(template, args, outcome.error) : undefined;
  if (own === undefined) checkOutcome(outcome, values);
}

/** The error, if reading one of the properties that the template names throws the same: then it is not ours, and passes. */
function ownErrorOf(template: string, args: readonly Named[], error: unknown): Error | undefined {
  for (const [, path] of template.matchAll(/<([\w.]+)>/g)) {
    try {
      let value: any = args.map(({ make }) => make());
      for (const step of path!.split('.')) value = value?.[step];
    } catch (own) {
      if ((own as Error).message === (error as Error).message) return own as Error;
    }
  }
  return undefined;
}

async function checkTag(value: Named): Promise<void> {
  const given = value.make();
  checkOutcome(await outcomeOf(() => lockKey`a:${given as never}:b`), [given]);
}

function checkOutcome(outcome: Awaited<ReturnType<typeof outcomeOf>>, values: readonly unknown[]): void {
  if ('error' in outcome) {
    checkIsTyped(outcome.error);
    if (!(outcome.error instanceof LockKeyError)) throw new Error('Another error', { cause: outcome.error });
    return;
  }
  // Strings are taken as they are, whatever they say.
  if (!isKey(outcome.value) && values.every((value) => typeof value !== 'string')) {
    throw new Error(`The key is ${JSON.stringify(outcome.value)}`);
  }
}

/** What a decorator may be put on. */
const PLACES: fc.Arbitrary<Named> = named({
  'a class': () => [class Odd {}],
  'a property': () => [{}, 'name'],
  'an accessor': () => [{}, 'name', { get: () => 1 }],
  'a static method': () => [class Odd {}, 'run', { value: () => 1 }],
  'a method': () => [class Odd {}.prototype, 'run', { value: () => 1 }],
  'a symbol': () => [class Odd {}.prototype, Symbol('run'), { value: () => 1 }],
  'an ECMAScript method': () => [() => 1, { kind: 'method', name: 'run' }],
  'a parameter': () => [{}, 'run', 0],
  nothing: () => [],
});

/** Decorators are source code: a proxy that throws, or a name of 100,000 characters, does not occur there. */
const isWritten = ({ name }: Named): boolean => !/proxy|a long string/.test(name);

interface Decorated {
  readonly key: Named;
  readonly options: Named;
  readonly place: Named;
}

const decorated: fc.Arbitrary<Decorated> = fc.record({
  key: fc.oneof(
    anyValue.filter(isWritten),
    text.map((one) => plain(one)),
  ),
  options: oddValue.filter(isWritten),
  place: PLACES,
});

const plain = (value: string): Named => new Named(JSON.stringify(value), () => value);

async function checkDecorator({ key, options, place }: Decorated): Promise<void> {
  const outcome = await outcomeOf(() =>
    (Locked as (...args: unknown[]) => Function)(key.make(), options.make())(...(place.make() as unknown[])),
  );
  if (!('error' in outcome)) return;
  checkIsTyped(outcome.error);
  const isExpected = outcome.error instanceof LockKeyError || outcome.error instanceof LockConfigurationError;
  if (!isExpected) throw new Error('Another error', { cause: outcome.error });
}

describe('key templates, their arguments and decorators of any kind', () => {
  it('make a key that means something, or are refused by a typed error', async () => {
    await fuzz('templates', [
      part(5_000, fill, checkFill),
      part(1_000, anyValue, checkTag),
      part(2_000, decorated, checkDecorator),
    ]);
  }, 600_000);
});
