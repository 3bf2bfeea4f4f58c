import * as fc from 'fast-check';
import { LockConfigurationError, type LockOptions, LockLostError } from '../../lib/index.js';
import { closeAll } from '../support/apps/lock-app.js';
import {
  anyShape,
  checkIsTyped,
  checkSaysWhy,
  fuzz,
  type Outcome,
  outcomeOf,
  part,
  type Shape,
  shaped,
} from './support/area.js';
import { wrongOperands, wrongOptions } from './support/option-rules.js';
import { type Scene, settled, startScene, untilNothingLeft } from './support/scene.js';
import { type Named, anyValue, named, oddValue, oneOf } from './support/values.js';

const RIGHT: Record<keyof LockOptions, fc.Arbitrary<Named>> = {
  mode: oneOf('read', 'write', 'Read', 'exclusive'),
  leaseMs: oneOf(49, 50, 1_000, 2_592_000_000, 2_592_000_001, 1_000.5),
  waitMs: oneOf(0, 1, 10_000, -1, 0.5),
  maxWaiters: oneOf(0, 1, 1_000, 1_001),
  maxHoldMs: oneOf(0, 1, 60_000, -1),
  holdAtLeastMs: oneOf(0, 1, 1_000, -1),
  renew: oneOf(true, false, 0, 'true'),
  permits: oneOf(0, 1, 100_000, 100_001),
  take: oneOf(0, 1, 2, 100_000, 100_001),
  perInstance: oneOf(0, 1, 100_000, 100_001),
  fair: oneOf(true, false, 1),
  owner: oneOf('me', '-', 'a b', 'x'.repeat(128), 'x'.repeat(129), '\u{1F600}'),
  note: oneOf('', 'order 17', 'a\nb', 'x'.repeat(256), 'x'.repeat(257), 'é'.repeat(129), '\u{D83D}'),
  signal: named({
    'a signal': () => new AbortController().signal,
    'half a signal': () => ({ addEventListener: () => undefined }),
    'a signal without methods': () => ({ aborted: false }),
  }),
  reentrant: oneOf(true, false, null),
  awaitRelease: oneOf(true, false, 'no'),
};

interface Call {
  readonly method: 'acquire' | 'tryAcquire' | 'withLock';
  readonly shape: Shape;
  readonly options: readonly (readonly [keyof LockOptions, Named])[];
}

const option = fc
  .constantFrom(...(Object.keys(RIGHT) as (keyof LockOptions)[]))
  .chain((name) => fc.tuple(fc.constant(name), fc.oneof({ weight: 2, arbitrary: RIGHT[name] }, anyValue)));

const call: fc.Arbitrary<Call> = fc.record({
  method: fc.constantFrom('acquire', 'tryAcquire', 'withLock'),
  shape: anyShape,
  options: fc.uniqueArray(option, { maxLength: 3, selector: ([name]) => name }),
});

/** Calls a method, and releases what it gets. */
function make({ locks }: Scene, method: Call['method'], options: never): Promise<unknown> {
  if (method === 'withLock') return locks.withLock('key', options, ({ held }) => held);
  return locks[method]('key', options).then(async (lock) => {
    const held = lock?.held;
    await lock?.release();
    return held;
  });
}

function checkOutcome(scene: Scene, { options }: Call, values: Map<string, unknown>, outcome: Outcome): void {
  const sent = scene.redis.received.splice(0).filter(({ name }) => name === 'acquire');
  for (const { operands } of sent) {
    const wrong = wrongOperands(operands);
    if (wrong.length > 0)
      throw new Error(`An acquire was sent with a wrong ${wrong.join(', ')}: ${JSON.stringify(operands)}`);
  }
  const wrong = wrongOptions(values);
  if ('error' in outcome) {
    checkIsTyped(outcome.error);
    const ended = outcome.error instanceof LockLostError && options.some(([name]) => name === 'maxHoldMs');
    if (ended) return;
    if (wrong.length === 0) throw new Error('Right options were refused', { cause: outcome.error });
    if (!(outcome.error instanceof LockConfigurationError)) throw new Error('Another error', { cause: outcome.error });
    checkSaysWhy(outcome.error);
    if (!wrong.some((name) => (outcome.error as Error).message.includes(name))) {
      throw new Error(`The text names none of ${wrong.join(', ')}: ${outcome.error.message}`);
    }
    if (sent.length > 0) throw new Error('Something was sent for wrong options');
  } else if (wrong.length > 0) {
    throw new Error(`A wrong ${wrong.join(', ')} was accepted`);
  }
}

describe('options of any kind', () => {
  let scene: Scene;
  beforeEach(async () => void (scene = await startScene()));
  afterEach(closeAll);

  async function check(given: Call): Promise<void> {
    const values = new Map(given.options.map(([name, value]) => [name as string, value.make()]));
    const options = shaped(values, given.shape) as never;
    const outcome = await outcomeOf(() => settled(make(scene, given.method, options)));
    checkOutcome(scene, given, values, outcome);
    await untilNothingLeft(scene);
  }

  /** The whole argument is something else than options. */
  async function checkBare({ method, options }: { method: Call['method']; options: Named }): Promise<void> {
    const value = options.make();
    const outcome = await outcomeOf(() => settled(make(scene, method, value as never)));
    // The second argument of `withLock` may be its work, whose errors pass.
    const isWork = method === 'withLock' && typeof value === 'function';
    if ('error' in outcome && !isWork) checkIsTyped(outcome.error);
    scene.redis.received.splice(0);
    await untilNothingLeft(scene);
  }

  it('are refused by a typed error before anything is sent, unless they are right', async () => {
    const bare = fc.record({ method: call.map(({ method }) => method), options: oddValue });
    await fuzz('options', [part(2_000, call, check), part(500, bare, checkBare)]);
  }, 600_000);
});
