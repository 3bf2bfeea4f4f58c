import { ADOPTION } from './adoption.js';
import { REPEATED_ACQUIRES } from './repeated-acquires.js';
import { CLAIM_KINDS } from './claim-kinds.js';
import { CLAIMS } from './claims.js';
import { CLOSE } from './close.js';
import { DOWNGRADE } from './downgrade.js';
import { EXCLUSION } from './exclusion.js';
import { FORCE_RELEASE } from './force-release.js';
import { INSPECT } from './inspect.js';
import { KEYS } from './keys.js';
import { LAST_RUN } from './last-run.js';
import { LEASES } from './leases.js';
import { LIST } from './list.js';
import { HISTORY } from './history.js';
import { HOLD_AT_LEAST } from './hold-at-least.js';
import { OWNERS } from './owners.js';
import { type PortCase } from './kit/port-case.js';
import { QUEUE } from './queue.js';
import { RELEASE } from './release.js';
import { type LockStoreContractOptions, Scene } from './kit/scene.js';
import { SEMAPHORES } from './semaphores.js';
import { SEVERAL_KEYS } from './several-keys.js';
import { TOKENS } from './tokens.js';
import { WAKE_UPS } from './wake-ups.js';

const HOLDS = [...EXCLUSION, ...TOKENS, ...OWNERS, ...REPEATED_ACQUIRES, ...RELEASE, ...LEASES, ...HOLD_AT_LEAST];
const WAITING = [
  ...QUEUE,
  ...SEMAPHORES,
  ...WAKE_UPS,
  ...SEVERAL_KEYS,
  ...KEYS,
  ...DOWNGRADE,
  ...ADOPTION,
  ...FORCE_RELEASE,
];
const JOBS = [...CLAIMS, ...CLAIM_KINDS, ...LAST_RUN];
const CASES: readonly PortCase[] = [...HOLDS, ...WAITING, ...JOBS, ...INSPECT, ...LIST, ...HISTORY, ...CLOSE];

/** A test for any test runner. */
export interface LockStoreCase {
  /** The promise that is tested. */
  readonly name: string;
  /** Rejects when the store does not keep it. */
  readonly run: () => Promise<void>;
}

/**
 * The promises of the port `LockStore`, as tests of a store, for any test runner:
 * `for (const { name, run } of lockStoreContract({ open: () => new MyStore(url) })) it(name, run);`
 */
export function lockStoreContract(options: LockStoreContractOptions): readonly LockStoreCase[] {
  const { supports } = new Scene(options);
  const supported = CASES.filter(({ needs = [] }) => needs.every((need) => supports[need]));
  return supported.map(({ name, run }) => ({ name, run: () => runCase(name, run, new Scene(options)) }));
}

async function runCase(name: string, run: PortCase['run'], scene: Scene): Promise<void> {
  try {
    await run(scene);
  } catch (cause) {
    // No `instanceof`: a test runner may give tests another `Error` than node has.
    const why = (cause as Partial<Error> | undefined)?.message ?? String(cause);
    throw new Error(`The store does not keep the promise that ${name}: ${why}`, { cause });
  } finally {
    await scene.close();
  }
}
