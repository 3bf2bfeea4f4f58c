import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';

setFlagsFromString('--expose-gc');
const gc = runInNewContext('gc') as () => void;

/** Runs the garbage collector. Finalizers are called back in a later turn. */
export async function collectGarbage(): Promise<void> {
  // A new turn drops references on the stack of the previous one.
  await new Promise((resolve) => setImmediate(resolve));
  gc();
  await new Promise((resolve) => setImmediate(resolve));
}
