import { currentLock, Locked, LockLostError } from '../../../lib/index.js';
import { FakeLockService, withFakeLocks } from '../../../lib/testing/index.js';

class Import {
  readonly saved: string[] = [];

  @Locked('import')
  async run(rows: readonly string[], save: (row: string) => Promise<void>): Promise<void> {
    for (const row of rows) {
      currentLock().signal.throwIfAborted();
      await save(row);
      this.saved.push(row);
    }
  }
}

it('an import stops when its lock is lost', async () => {
  const locks = new FakeLockService();
  const imports = withFakeLocks(new Import(), locks);
  const save = async (row: string): Promise<void> => {
    if (row === 'b') locks.lose('import');
  };
  await expect(imports.run(['a', 'b', 'c'], save)).rejects.toBeInstanceOf(LockLostError);
  expect(imports.saved).toEqual(['a', 'b']);
});
