import * as fc from 'fast-check';
import {
  LockConfigurationError,
  RedisLockModule,
  type RedisLockModuleOptions,
  createLockScripts,
} from '../../lib/index.js';
import { systemClock } from '../../lib/core/clock.js';
import { systemRandomness } from '../../lib/core/randomness.js';
import { systemAfterTurn } from '../../lib/core/runtime.js';
import { storeOf } from '../../lib/core/store/given-store.js';
import { openProcessMemory } from '../../lib/memory/process-memory.js';
import { resolveModuleOptions } from '../../lib/redis-lock.options.js';
import { openStore } from '../../lib/redis/open-store.js';
import { FakeStore } from '../support/core/fake-store.js';
import { anyShape, checkIsTyped, checkSaysWhy, fuzz, outcomeOf, part, type Shape, shaped } from './support/area.js';
import { isValid } from './support/option-rules.js';
import { Named, anyValue, named, oddValue, oneOf } from './support/values.js';

const ignore = (): void => undefined;
const reporter = { debug: ignore, warn: ignore, error: ignore };

const CONNECTION = named({
  'the memory': () => 'memory',
  'a URL': () => 'redis://127.0.0.1:1',
  'another URL': () => 'redis://127.0.0.1:2',
  'a URL of another protocol': () => 'http://127.0.0.1:1',
  'a URL with a bad escape': () => 'redis://user:%zz@127.0.0.1:1',
  'a URL with a bad port': () => 'redis://127.0.0.1:99999999',
  'no host': () => 'redis://',
  'a list of URLs': () => ['redis://127.0.0.1:1', 'redis://127.0.0.1:2', 'redis://127.0.0.1:3'],
  'a list with holes': () => Object.assign(['redis://127.0.0.1:1'], { 2: 'redis://127.0.0.1:3' }),
  'odd sentinels': () => ({ sentinels: 5, name: {} }),
  'a cluster of nothing': () => ({ cluster: [] }),
  'an odd cluster': () => ({ cluster: [null, 5, Symbol('node')] }),
  'a client of another library': () => ({ evalsha: ignore, duplicate: 5 }),
  'an odd host': () => ({ host: Symbol('host'), port: Number.NaN }),
  'a getter that throws': () => ({
    get host(): string {
      throw new RangeError('thrown by the value');
    },
  }),
});

const RIGHT: Record<keyof RedisLockModuleOptions, fc.Arbitrary<Named>> = {
  name: oneOf('jobs', '', 5),
  isGlobal: oneOf(true, false, 'no'),
  connection: fc.oneof(
    CONNECTION,
    fc.array(fc.oneof(CONNECTION, oddValue), { maxLength: 3 }).map((nodes) => list(nodes)),
  ),
  store: named({
    'a store': () => new FakeStore(),
    'half a store': () => Object.assign(new FakeStore(), { renew: undefined, list: 5 }),
    'a store without an id': () => Object.assign(new FakeStore(), { clientId: 'a.b' }),
    'a factory': () => () => new FakeStore(),
    'a promise of a store': async () => new FakeStore(),
  }),
  memoryInProduction: oneOf(true, false, 'yes'),
  durable: oneOf('aof', 'rdb', true),
  keyPrefix: oneOf('lock:', '', '{a}', 'x'.repeat(128), 'x'.repeat(129), 'a\uD800'),
  history: named({
    on: () => true,
    off: () => false,
    'with limits': () => ({ maxEntries: 100, keepMs: 60_000 }),
    'with too few': () => ({ maxEntries: 99 }),
    'with an odd time': () => ({ keepMs: Symbol('keepMs') }),
    'misspelt limits': () => ({ maxEntrys: 1_000 }),
    'a getter that throws': () => ({
      get keepMs(): number {
        throw new RangeError('thrown by the value');
      },
    }),
  }),
  leaseMs: oneOf(49, 50, 30_000),
  waitMs: oneOf(0, -1, 1_000),
  maxHoldMs: oneOf(0, 1),
  awaitRelease: oneOf(true, false, 'no'),
  drainMs: oneOf(0, 3_600_000, 3_600_001),
  onUnavailable: oneOf('fail', 'skip', 'run-unlocked', 'run'),
  keepMs: oneOf(59_999, 60_000),
  minReplicas: oneOf(0, 1, 100, 101, 0.5),
  replicaTimeoutMs: oneOf(0, 1, 60_000),
  hashTag: named({ 'a function': () => () => 'tag', 'a text': () => 'tag' }),
};

const list = (nodes: readonly Named[]): Named =>
  new Named(`[${nodes.map(({ name }) => name).join(', ')}]`, () => nodes.map((node) => node.make()));

interface Given {
  readonly shape: Shape;
  readonly options: readonly (readonly [keyof RedisLockModuleOptions, Named])[];
}

const option = fc
  .constantFrom(...(Object.keys(RIGHT) as (keyof RedisLockModuleOptions)[]))
  .chain((name) => fc.tuple(fc.constant(name), fc.oneof({ weight: 2, arbitrary: RIGHT[name] }, anyValue)));

const given: fc.Arbitrary<Given> = fc.record({
  shape: anyShape,
  options: fc.uniqueArray(option, { maxLength: 3, selector: ([name]) => name }),
});

const OF_CALLS = ['leaseMs', 'waitMs', 'maxHoldMs', 'awaitRelease'] as const;

/** Opens a store with the options, as the module does, but does not connect. */
async function start(options: RedisLockModuleOptions): Promise<void> {
  RedisLockModule.forRoot(options);
  const resolved = resolveModuleOptions(options);
  for (const name of OF_CALLS) if (!isValid[name](resolved[name])) throw new Error(`A wrong ${name} was accepted`);
  const { connection, store } = resolved;
  if (store !== undefined) {
    // The factory is code of the app.
    if (typeof store !== 'function') storeOf(store, { ...resolved, clock: systemClock, reporter });
    return;
  }
  if (connection === 'memory') return openProcessMemory({ ...resolved, reporter }).close();
  const opened = openStore({
    ...resolved,
    connection: connection ?? 'redis://127.0.0.1:6379',
    scripts: createLockScripts(),
    clock: systemClock,
    random: systemRandomness,
    afterTurn: systemAfterTurn,
    reporter,
  });
  await opened.close();
}

async function check({ shape, options }: Given): Promise<void> {
  const values = new Map<string, unknown>(options.map(([name, value]) => [name, value.make()]));
  const outcome = await outcomeOf(() => start(shaped(values, shape)));
  const wrong = OF_CALLS.filter((name) => values.get(name) !== undefined && !isValid[name](values.get(name)));
  if ('error' in outcome) {
    checkIsTyped(outcome.error);
    if (!(outcome.error instanceof LockConfigurationError)) throw new Error('Another error', { cause: outcome.error });
    checkSaysWhy(outcome.error);
    // They are read twice here, and moody ones are wrong then.
    const isDefault = shape !== 'moody' && options.every(([, { make }]) => make() === undefined);
    if (isDefault) throw new Error('The defaults were refused');
  } else if (wrong.length > 0) {
    throw new Error(`A wrong ${wrong.join(', ')} was accepted`);
  }
}

describe('module options of any kind', () => {
  it('are refused by a typed error with the reason, or a store can be opened with them', async () => {
    const bare = async (value: Named): Promise<void> => {
      const outcome = await outcomeOf(() => start(value.make() as never));
      if ('error' in outcome) checkIsTyped(outcome.error);
    };
    await fuzz('module-options', [part(1_500, given, check), part(200, oddValue, bare)]);
  }, 600_000);
});
