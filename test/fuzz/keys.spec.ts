import * as fc from 'fast-check';
import { LockKeyError } from '../../lib/index.js';
import { closeAll } from '../support/apps/lock-app.js';
import { checkIsTyped, checkSaysWhy, fuzz, type Outcome, outcomeOf, part } from './support/area.js';
import { type Scene, settled, startScene, untilNothingLeft } from './support/scene.js';
import { Named, anyValue, named } from './support/values.js';

const METHODS = ['acquire', 'tryAcquire', 'withLock', 'inspect', 'isLocked', 'forceRelease', 'lastRun'] as const;

/** How the module puts hash tags before keys. */
const TAGS = {
  none: undefined,
  one: () => 'tag',
  moody: moodyTag(),
  throwing: throwingTag,
  odd: () => 5 as never,
} as const;

function moodyTag(): () => string | undefined {
  let calls = 0;
  return () => ((calls += 1) % 3 === 0 ? (Symbol('tag') as never) : 'tag');
}

function throwingTag(): never {
  throw new RangeError('thrown by the hash tag');
}

interface Call {
  readonly method: (typeof METHODS)[number];
  readonly tag: keyof typeof TAGS;
  readonly key: Named;
}

const text = fc.oneof(
  fc.string({ minLength: 1, maxLength: 20 }),
  fc.string({ unit: 'binary', maxLength: 20 }),
  fc.string({
    unit: fc.constantFrom('{', '}', '%', ':', '\0', '\r', '\n', ' ', '\u2028', '\uD800', '\uDC00', 'a'),
    maxLength: 6,
  }),
  // Around the limit of 1,024 bytes, which are more as they are stored.
  fc
    .tuple(fc.constantFrom('a', '{', '\u{1F600}', '\u00E9'), fc.integer({ min: 200, max: 1_040 }))
    .map(([c, n]) => c.repeat(n)),
);

const quoted = (value: unknown): Named => new Named(fc.stringify(value), () => value);

const LISTS = named({
  'a list with holes': () => Object.assign(['a'], { 2: 'b' }),
  'a list of duplicates': () => ['a', 'a', 'a'],
  'a list of many duplicates': () => Array.from({ length: 100 }, () => 'a'),
  'a list of too many': () => Array.from({ length: 17 }, (_, i) => `key-${i}`),
  'a list of very many': () => Array.from({ length: 100 }, (_, i) => `key-${i}`),
  'a list in a list': () => [['a']],
  'a list with an element that changes': () => {
    let reads = 0;
    return Object.defineProperty(['a', 'b'], 1, { get: () => ((reads += 1) > 1 ? Symbol('key') : 'b') });
  },
  'a list that throws': () =>
    Object.defineProperty(['a', 'b'], 1, {
      get: () => {
        throw new RangeError('thrown by the list');
      },
    }),
  'a list without iterator': () => Object.assign(['a'], { [Symbol.iterator]: undefined }),
  'a list with an iterator that never ends': () =>
    Object.assign(['a'], {
      *[Symbol.iterator]() {
        for (;;) yield 'a';
      },
    }),
  'a set': () => new Set(['a']),
});

const key = fc.oneof(
  { weight: 3, arbitrary: text.map(quoted) },
  { weight: 3, arbitrary: fc.array(text, { maxLength: 20 }).map(quoted) },
  fc.array(fc.oneof(text.map(quoted), anyValue), { maxLength: 4 }).map((items) => listOf(items)),
  LISTS,
  anyValue,
);

const listOf = (items: readonly Named[]): Named =>
  new Named(`[${items.map(({ name }) => name).join(', ')}]`, () => items.map((item) => item.make()));

const call: fc.Arbitrary<Call> = fc.record({
  method: fc.constantFrom(...METHODS),
  tag: fc.oneof(
    { weight: 30, arbitrary: fc.constant('none' as const) },
    fc.constantFrom(...(Object.keys(TAGS) as (keyof typeof TAGS)[])),
  ),
  key,
});

const MAX_BYTES = 1_024;

/** Whether a key is right; written down once more, without the library. `before`: the length of its hash tag. */
function isRightKey(value: unknown, before: number): boolean {
  if (typeof value !== 'string' || value === '' || Buffer.from(value).toString() !== value) return false;
  return Buffer.byteLength(value.replace(/[%{}]/g, '%25')) + before <= MAX_BYTES;
}

/** The keys that a value names, each read once; undefined if it cannot be read. */
function keysIn(value: unknown): readonly unknown[] | undefined {
  try {
    if (!Array.isArray(value)) return [value];
    return Array.from({ length: Math.min(value.length, 20_000) }, (_, i): unknown => value[i]);
  } catch {
    return undefined;
  }
}

function make({ locks }: Scene, method: Call['method'], given: never): Promise<unknown> {
  if (method === 'withLock') return locks.withLock(given, ({ held }) => held);
  if (method !== 'acquire' && method !== 'tryAcquire') return locks[method](given);
  return locks[method](given).then(async (lock) => lock?.release());
}

describe('keys of any kind', () => {
  const scenes = {} as Record<keyof typeof TAGS, Scene>;
  beforeEach(async () => {
    for (const tag of Object.keys(TAGS) as (keyof typeof TAGS)[])
      scenes[tag] = await startScene({ hashTag: TAGS[tag] });
  });
  afterEach(closeAll);

  async function check({ method, tag, key: { make: makeKey } }: Call): Promise<void> {
    const scene = scenes[tag];
    scene.redis.received.splice(0);
    const outcome = await outcomeOf(() => settled(make(scene, method, makeKey() as never)));
    checkOutcome(scene, { method, tag, outcome, given: makeKey() });
    await untilNothingLeft(scene);
  }

  it('are refused by a typed error before anything is sent, unless they are right', async () => {
    await fuzz('keys', [part(2_000, call, check)]);
  }, 600_000);
});

/** Calls of these may name any number of keys, and ask for each of them. */
const ASK_EACH: readonly string[] = ['inspect', 'isLocked', 'forceRelease'];

function checkOutcome(
  scene: Scene,
  given: { method: string; tag: Call['tag']; outcome: Outcome; given: unknown },
): void {
  const { method, tag, outcome } = given;
  if ('error' in outcome) {
    checkIsTyped(outcome.error);
    if (!(outcome.error instanceof LockKeyError)) throw new Error('Another error', { cause: outcome.error });
    checkSaysWhy(outcome.error);
    if (scene.redis.received.length > 0 && tag !== 'moody') throw new Error('Something was sent for a wrong key');
  }
  if (tag !== 'none' && tag !== 'one') return;
  const keys = keysIn(given.given) ?? [];
  const isOne = method === 'lastRun';
  const most = ASK_EACH.includes(method) ? Number.POSITIVE_INFINITY : 16;
  const before = tag === 'one' ? '{tag}'.length : 0;
  const isRight =
    keys.length > 0 &&
    new Set(keys).size <= most &&
    !(isOne && Array.isArray(given.given)) &&
    keys.every((one) => isRightKey(one, before));
  if (isRight && 'error' in outcome) throw new Error('A valid key was refused', { cause: outcome.error });
  if (!isRight && 'value' in outcome) throw new Error('A wrong key was accepted');
}
