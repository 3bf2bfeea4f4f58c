import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Redis } from 'ioredis';
import { type LockLostError } from '../../../lib/index.js';
import { makeCertificates } from '../../../scripts/topologies/secured.mjs';
import { SOON_CLOSED, closeAll, closeLater, freshKey, startApp } from '../../support/apps/lock-app.js';
import { ownRedis } from '../../support/redis/own-redis.js';
import { eventually } from '../../support/waiting/eventually.js';
import { rejection } from '../../support/waiting/rejection.js';
import { ownSecured } from '../../support/redis/own-topologies.js';

const LEASE_MS = 3_000;

afterEach(closeAll);

/** A server with TLS whose certificate can be replaced by one of another authority, and back. */
async function startWithCertificates() {
  const folder = mkdtempSync(join(tmpdir(), 'certificate-'));
  closeLater({ close: async () => rmSync(folder, { recursive: true, force: true }) });
  const secured = await ownSecured();
  const admin = new Redis({ ...secured.admin, ...SOON_CLOSED });
  closeLater({ close: async () => admin.disconnect() });
  const { server } = await makeCertificates();
  const foreign = { cert: join(folder, 'cert.pem'), key: join(folder, 'key.pem') };
  writeFileSync(foreign.cert, server.cert);
  writeFileSync(foreign.key, server.key, { mode: 0o600 });
  const [, cert] = await admin.config('GET', 'tls-cert-file');
  const [, key] = await admin.config('GET', 'tls-key-file');
  const use = async (files: { cert: string; key: string }): Promise<void> => {
    await admin.config('SET', 'tls-cert-file', files.cert, 'tls-key-file', files.key);
    await admin.call('CLIENT', 'KILL', 'TYPE', 'normal', 'SKIPME', 'yes');
  };
  return {
    connection: secured.connection,
    replace: () => use(foreign),
    restore: () => use({ cert: cert!, key: key! }),
  };
}

describe('a certificate that clients do not trust any more', () => {
  it('costs a lock only when its lease is over, and locks work again when it is put right', async () => {
    const { connection, replace, restore } = await startWithCertificates();
    const { locks } = await startApp({ connection });
    const held = await locks.acquire(freshKey(), { leaseMs: LEASE_MS });
    await replace();
    const error = await rejection(locks.acquire(freshKey(), { waitMs: 300 }));
    expect(error).toMatchObject({ code: 'LOCK_STORE', retryable: true });
    expect(error.message).toMatch(/certificate/);
    await eventually(() => held.signal.aborted, { timeoutMs: 40_000 });
    expect((held.signal.reason as LockLostError).reason).toBe('unreachable');
    const waiting = locks.acquire(freshKey(), { waitMs: 25_000 });
    await restore();
    expect((await waiting).held).toBe(true);
  });
});

describe('a password that was changed', () => {
  it('costs a lock only when its lease is over, and every call says why', async () => {
    const { admin, port } = await ownRedis();
    await admin.call('ACL', 'SETUSER', 'app', 'on', '>one', '~*', '&*', '+@all');
    const { locks } = await startApp({ connection: { port, username: 'app', password: 'one' } });
    const held = await locks.acquire(freshKey(), { leaseMs: LEASE_MS });
    // A connection keeps its user until it is gone.
    await admin.call('ACL', 'SETUSER', 'app', 'resetpass', '>two');
    await held.extend(LEASE_MS);
    await admin.call('CLIENT', 'KILL', 'USER', 'app');
    const error = await rejection(locks.acquire(freshKey(), { waitMs: 20_000 }));
    expect(error).toMatchObject({ code: 'LOCK_STORE', retryable: false });
    expect(error.message).toContain('WRONGPASS');
    await eventually(() => held.signal.aborted, { timeoutMs: 40_000 });
    expect((held.signal.reason as LockLostError).reason).toBe('unreachable');
    await admin.call('ACL', 'SETUSER', 'app', '>one');
    await eventually(() => locks.withLock(freshKey(), () => true).catch(() => false), { timeoutMs: 20_000 });
  });
});
