import { ManualClock, MemoryLockServer, MemoryLockStore } from '../../../../lib/testing/index.js';
import { lockStoreContract } from '../../../../lib/testing/index.js';

describe('a MemoryLockStore on a ManualClock', () => {
  const clock = new ManualClock();
  const server = new MemoryLockServer({ clock });

  it.each(lockStoreContract({ open: () => new MemoryLockStore(server), clock }))('$name', ({ run }) => run());
});

describe('lockStoreContract', () => {
  const open = () => new MemoryLockStore(new MemoryLockServer());
  const namesFor = (supports: Parameters<typeof lockStoreContract>[0]['supports']) =>
    lockStoreContract({ open, supports }).map(({ name }) => name);

  it('names each case once', () => {
    const names = namesFor({});
    expect(names.length).toBeGreaterThan(50);
    expect(new Set(names).size).toBe(names.length);
  });

  it.each(['queue', 'permits', 'severalKeys', 'claims', 'wakeUps'] as const)(
    'has fewer cases for a store without %s',
    (what) => {
      const [all, fewer] = [namesFor({}), namesFor({ [what]: false })];
      expect(all).toEqual(expect.arrayContaining(fewer));
      expect(fewer.length).toBeLessThan(all.length);
    },
  );

  it('has cases left for a store that only excludes', () => {
    const least = { queue: false, permits: false, severalKeys: false, claims: false, wakeUps: false };
    expect(namesFor(least)).toContain('a write hold excludes readers');
  });

  it('reports which promise is broken and why, and closes the stores that it opened', async () => {
    let opened = 0;
    class BadStore extends MemoryLockStore {
      override async forceRelease(): Promise<boolean> {
        throw new Error('It cannot.');
      }
      override async close(): Promise<void> {
        opened -= 1;
        await super.close();
      }
    }
    const openBad = () => {
      opened += 1;
      return new BadStore(new MemoryLockServer());
    };
    const { name, run } = lockStoreContract({ open: openBad }).find(({ name }) =>
      name.startsWith('a revocation ends'),
    )!;
    await expect(run()).rejects.toThrow(`The store does not keep the promise that ${name}: It cannot.`);
    expect(opened).toBe(0);
  });
});
