import { HAND_OVER } from './hand-over.js';
import { HOLDS } from './holds.js';
import { JOBS } from './jobs.js';
import { type LockStoreContractOptions, type PortCase, Scene } from './kit.js';
import { REPORTS } from './reports.js';
import { WAITING } from './waiting.js';

const CASES: readonly PortCase[] = [...HOLDS, ...WAITING, ...HAND_OVER, ...JOBS, ...REPORTS];

/** A test for any test runner. */
export interface LockStoreCase {
  /** The tested promise. */
  readonly name: string;
  /** Rejects when the store does not keep it. */
  readonly run: () => Promise<void>;
}

/**
 * The promises of the port `LockStore`, as tests of a store, for any test runner:
 * `for (const { name, run } of lockStoreContract({ open: () => new MyStore(url) })) it(name, run);`
 */
export function lockStoreContract(options: LockStoreContractOptions): readonly LockStoreCase[] {
  const scene = new Scene(options);
  const supported = CASES.filter(({ needs }) => needs.every((need) => scene.supports(need)));
  return supported.map(({ name, run }) => ({ name, run: () => runCase(name, run, new Scene(options)) }));
}

async function runCase(name: string, run: PortCase['run'], scene: Scene): Promise<void> {
  try {
    await run(scene, await scene.client(), await scene.client(), await scene.client());
  } catch (cause) {
    // No `instanceof`: a test runner may replace the `Error` of Node.
    const why = (cause as Partial<Error> | undefined)?.message ?? String(cause);
    throw new Error(`The store does not keep the promise that ${name}: ${why}`, { cause });
  } finally {
    await scene.close();
  }
}
