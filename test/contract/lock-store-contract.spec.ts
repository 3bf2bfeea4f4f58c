import { systemClock } from '../../lib/core/clock.js';
import { type LockStore } from '../../lib/core/store/lock-store.js';
import { openStore } from '../../lib/redis/open-store.js';
import { createLockScripts } from '../../lib/redis/scripts/lock-scripts.js';
import { lockStoreContract } from '../../lib/testing/index.js';
import { MemoryLockServer, MemoryLockStore } from '../../lib/testing/index.js';
import { topology } from '../support/topologies/topology.js';
import { systemRandomness } from '../../lib/core/randomness.js';
import { systemAfterTurn } from '../../lib/core/runtime.js';

const ignore = (): void => undefined;
const scripts = createLockScripts();
const memory = new MemoryLockServer();

/** Has all keys of one case lie in one slot of a cluster, and those of several cases on all its nodes. */
const hashTag = topology.supports.oneScript ? undefined : (key: string) => key.split(':')[0];

function open(): LockStore {
  if (topology.isMemory) return new MemoryLockStore(memory);
  const { connection } = topology;
  const reporter = { debug: ignore, warn: ignore, error: ignore };
  const common = {
    connection,
    clock: systemClock,
    random: systemRandomness,
    afterTurn: systemAfterTurn,
    reporter,
    scripts,
    hashTag,
  };
  return openStore({ ...common, keyPrefix: 'lock:', keepMs: 60_000, minReplicas: 0, replicaTimeoutMs: 500 });
}

describe('the store keeps the promise that', () => {
  const { supports, spreadMs } = topology;
  const { queue, permits, sameGrant, shortLeases } = supports;
  const supported = { queue, permits, sameGrant, shortLeases };
  const cases = lockStoreContract({ open, supports: supported, spreadMs, deadlineMs: 15_000 });

  it.each(cases)('$name', ({ run }) => run());
});
