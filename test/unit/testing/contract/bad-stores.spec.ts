import { lockStoreContract } from '../../../../lib/testing/index.js';
import { ManualClock, MemoryLockServer } from '../../../../lib/testing/index.js';
import { type BadStore } from './bad-stores.js';
import { BAD_ADOPTIONS } from './bad-stores-adoptions.js';
import { BAD_HISTORIES } from './bad-stores-history.js';
import { BAD_HOLDS } from './bad-stores-holds.js';
import { BAD_JOBS } from './bad-stores-jobs.js';
import { BAD_SEMAPHORES } from './bad-stores-semaphores.js';
import { BAD_WAITING } from './bad-stores-waiting.js';

const BAD_STORES: readonly BadStore[] = [
  ...BAD_HOLDS,
  ...BAD_WAITING,
  ...BAD_ADOPTIONS,
  ...BAD_SEMAPHORES,
  ...BAD_JOBS,
  ...BAD_HISTORIES,
];

describe('the contract of a store notices one of which', () => {
  it.each(BAD_STORES)('$name', async ({ store: Store, noticedBy, deadlineMs }) => {
    const clock = new ManualClock();
    const server = new MemoryLockServer({ clock });
    const kit = { open: () => new Store(server), clock, ...(deadlineMs && { deadlineMs }) };
    const found = lockStoreContract(kit).find(({ name }) => name === noticedBy);
    expect(found).toBeDefined();
    await expect(found!.run()).rejects.toThrow(`The store does not keep the promise that ${noticedBy}: Expected `);
  });
});
