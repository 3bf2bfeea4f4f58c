import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';

setFlagsFromString('--expose-gc');
const gc = runInNewContext('gc') as () => void;

/** Collects what nobody refers to any more; what is called back for it comes in a later turn. */
export async function collectGarbage(): Promise<void> {
  // What the turn before left in its frames is let go first.
  await new Promise((resolve) => setImmediate(resolve));
  gc();
  await new Promise((resolve) => setImmediate(resolve));
}
