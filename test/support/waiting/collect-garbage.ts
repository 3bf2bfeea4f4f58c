import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';

setFlagsFromString('--expose-gc');
const gc = runInNewContext('gc') as () => void;
const { dropKeptGarbage } = globalThis as unknown as { dropKeptGarbage: () => void };

/** Runs the garbage collector, also for what the test environment keeps until then. Finalizers are called back in a later turn. */
export async function collectGarbage(): Promise<void> {
  // A new turn drops references on the stack of the previous one.
  await new Promise((resolve) => setImmediate(resolve));
  dropKeptGarbage();
  gc();
  await new Promise((resolve) => setImmediate(resolve));
}
