import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type LockLostError } from '../../../lib/index.js';
import { type StartedRedis } from '../../../scripts/redis.mjs';
import { closeAll, closeLater, freshKey, startApp } from '../../support/apps/lock-app.js';
import { ownRedis, startAgain } from '../../support/redis/own-redis.js';
import { eventually } from '../../support/waiting/eventually.js';

const LEASE_MS = 20_000;

/** One instance that holds a lock, and one that waits for it. */
async function holdAndWait({ url }: StartedRedis) {
  const [a, b, key] = [await startApp({ connection: url }), await startApp({ connection: url }), freshKey()];
  const held = await a.locks.acquire(key, { leaseMs: LEASE_MS });
  const next = b.locks.acquire(key, { waitMs: 60_000 });
  await eventually(async () => (await a.locks.inspect(key)).waiters === 1);
  return { a, b, key, held, next };
}

describe('a server that restarts', () => {
  afterEach(closeAll);

  it('tells holders that the data is gone, and grants greater tokens', async () => {
    const server = await ownRedis();
    const { held, next } = await holdAndWait(server);
    await server.kill();
    await startAgain(server);
    const lock = await next;
    expect(lock.fencingToken).toBeGreaterThan(held.fencingToken);
    await eventually(() => held.signal.aborted, { timeoutMs: 2 * LEASE_MS });
    expect(['taken', 'expired']).toContain((held.signal.reason as LockLostError).reason);
    expect(lock.held).toBe(true);
  }, 60_000);

  it('keeps holds and waiters when the data is kept', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'kept-'));
    closeLater({ close: async () => rmSync(folder, { recursive: true, force: true }) });
    const server = await ownRedis(['--dir', folder, '--appendonly', 'yes', '--appendfsync', 'always']);
    const { a, key, held, next } = await holdAndWait(server);
    await server.kill();
    await startAgain(server);
    let renewals = 0;
    a.locks.events.on('renewed', () => (renewals += 1));
    await eventually(() => renewals >= 2, { timeoutMs: 2 * LEASE_MS });
    expect([held.held, (await a.locks.inspect(key)).waiters]).toEqual([true, 1]);
    await held.release();
    const lock = await next;
    expect(lock.fencingToken).toBeGreaterThan(held.fencingToken);
  }, 60_000);
});
