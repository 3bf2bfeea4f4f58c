import { lockStoreContract } from '../../../lib/testing/contract/index.js';
import { ManualClock, MemoryLockServer, MemoryLockStore } from '../../../lib/testing/index.js';

describe('my store', () => {
  const clock = new ManualClock();
  const server = new MemoryLockServer({ clock });

  // oxlint-disable-next-line typescript/unbound-method
  for (const { name, run } of lockStoreContract({ open: () => new MemoryLockStore(server), clock })) it(name, run);
});
