import { lockStoreContract, ManualClock, MemoryLockServer, MemoryLockStore } from '../../../lib/testing/index.js';

describe('my store', () => {
  const clock = new ManualClock();
  const server = new MemoryLockServer({ clock });

  for (const { name, run } of lockStoreContract({ open: () => new MemoryLockStore(server), clock })) it(name, run);
});
