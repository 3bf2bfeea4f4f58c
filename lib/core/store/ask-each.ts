import { type AwaitedCalls } from '../awaited-calls.js';
import { checkKeyOf } from './capabilities.js';
import { type LockStore } from './lock-store.js';

/**
 * Checks all keys, then asks for each of them; rejects only after all answers have come.
 * @throws LockKeyError, and what `ask` rejects with
 */
export async function askEach<T>(
  store: Pick<LockStore, 'checkKey'>,
  awaited: AwaitedCalls,
  keys: readonly string[],
  ask: (key: string) => Promise<T>,
): Promise<T[]> {
  for (const key of keys) checkKeyOf(store, key);
  const answers = await awaited.keepAlive(Promise.allSettled(keys.map(ask)));
  return answers.map((answer) => {
    if (answer.status === 'rejected') throw answer.reason;
    return answer.value;
  });
}
