import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { lockStoreContract } from 'nestjs-redis-lock/testing';
import { SqliteLockStore } from '../src/sqlite-lock-store.js';

const folder = mkdtempSync(join(tmpdir(), 'sqlite-store-'));
const file = join(folder, 'locks.db');

afterAll(() => rmSync(folder, { recursive: true, force: true }));

describe('the store in an SQLite file keeps the promise that', () => {
  const open = () => new SqliteLockStore(file);
  const cases = lockStoreContract({ open, supports: { history: false }, deadlineMs: 15_000 });

  it.each([...cases])('$name', ({ run }) => run());
});
