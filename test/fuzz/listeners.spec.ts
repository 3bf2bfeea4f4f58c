import * as fc from 'fast-check';
import { type LockEventName } from '../../lib/index.js';
import { fuzz, part } from './support/area.js';
import { type BareScene, settled, startBareScene } from './support/scene.js';
import { goodAnswer } from './support/fake-redis.js';
import { Named, anyValue } from './support/values.js';

/** Those of a call that holds a lock, nests another one, and of one that is refused. */
const NAMES = [
  'acquired',
  'acquireFailed',
  'released',
  'renewed',
  'lost',
  'reentered',
] as const satisfies LockEventName[];

const MAX_LINES = 60;

/** What a listener does when it is called. */
const KINDS = {
  throws: (value: unknown) => {
    throw value;
  },
  'rejects with': (value: unknown) => Promise.reject(value),
  returns: (value: unknown) => value,
  'throws later': async (value: unknown) => {
    await Promise.resolve();
    throw value;
  },
} as const;

interface Listener {
  readonly name: LockEventName;
  readonly kind: keyof typeof KINDS;
  readonly value: Named;
}

const listener: fc.Arbitrary<Listener> = fc.record({
  name: fc.constantFrom(...NAMES),
  kind: fc.constantFrom(...(Object.keys(KINDS) as (keyof typeof KINDS)[])),
  value: anyValue,
});

async function check(listeners: readonly Listener[]): Promise<void> {
  let calls = 0;
  const scene = await startBareScene(goodAnswer, { leaseMs: 20_000 });
  try {
    for (const { name, kind, value } of listeners) {
      scene.locks.events.on(name, () => {
        calls += 1;
        return KINDS[kind](value.make());
      });
    }
    await useLocks(scene);
    if (calls === 0 && listeners.some(({ name }) => name === 'acquired')) throw new Error('No listener was called');
    if (scene.lines.length > MAX_LINES) throw new Error(`The log has ${scene.lines.length} lines`);
    const longest = Math.max(0, ...scene.lines.map((line) => line.length));
    if (longest > 5_000) throw new Error(`A line of the log has ${longest} characters`);
  } finally {
    await scene.close();
  }
}

async function useLocks({ locks }: BareScene): Promise<void> {
  const value = await settled(
    locks.withLock('key', async (lock) => {
      const nested = await locks.withLock('key', () => lock.held);
      return nested && lock.held;
    }),
  );
  if (!value) throw new Error('The lock was not held, or the value was lost');
  const lock = await settled(locks.acquire('other'));
  await settled(lock.extend(1_000));
  await settled(lock.release());
  await settled(locks.withLock('key', { signal: AbortSignal.abort() }, () => 1)).catch(() => undefined);
}

describe('listeners that throw, reject or return anything', () => {
  it('change nothing about the locks, and leave a bounded log', async () => {
    await fuzz('listeners', [part(300, fc.array(listener, { minLength: 1, maxLength: 12 }), check, { width: 20 })]);
  }, 600_000);
});
