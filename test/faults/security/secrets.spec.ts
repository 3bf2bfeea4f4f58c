import { inspect } from 'node:util';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Redis } from 'ioredis';
import { LockConfigurationError, type LockLostError, type RedisConnection } from '../../../lib/index.js';
import { eventually } from '../../support/waiting/eventually.js';
import { ownRedis } from '../../support/redis/own-redis.js';
import { closeAll, closeLater, freshKey, SOON_CLOSED, startApp } from '../../support/apps/lock-app.js';
import { allow, asLocks, PASSWORD, SECRET, spyOnLogs } from './support.js';
import { rejection } from '../../support/waiting/rejection.js';
import { makeCertificates } from '../../../scripts/topologies/secured.mjs';
import { ownSecured } from '../../support/redis/own-topologies.js';

afterEach(closeAll);

const ENCODED = encodeURIComponent(PASSWORD);

/** Everything that an error can show, however it is logged. */
const textOf = (error: unknown): string => inspect(error, { depth: Infinity });

const FORMS: Record<string, (port: number) => RedisConnection> = {
  'a URL': (port) => `redis://locks:${ENCODED}@127.0.0.1:${port}`,
  options: (port) => ({ ...asLocks(port), host: '127.0.0.1' }),
};

describe('the password', () => {
  afterEach(() => jest.restoreAllMocks());

  const FAILURES = ['is unreachable', 'refuses the password', 'dies'] as const;
  const cases = Object.keys(FORMS).flatMap((form) => FAILURES.map((failure) => [form, failure] as const));

  /** What every call rejects with when Redis fails, and what was logged. */
  async function fail(form: string, failure: (typeof FAILURES)[number]) {
    const { lines } = spyOnLogs();
    const server = await ownRedis();
    await allow(server.admin, failure === 'refuses the password' ? ['resetpass', '+@all'] : ['~*', '&*', '+@all']);
    if (failure === 'is unreachable') await server.kill();
    const { locks } = await startApp({ connection: FORMS[form]!(server.port) });
    const lost = failure === 'dies' ? await locks.acquire('held', { leaseMs: 500 }) : null;
    if (failure === 'dies') await server.kill();
    const calls = [
      locks.withLock('k', { waitMs: 100 }, () => undefined),
      locks.inspect('k'),
      locks.forceRelease('k'),
      locks.list()[Symbol.asyncIterator]().next(),
    ];
    const errors: unknown[] = await Promise.all(calls.map((call) => rejection(call)));
    if (lost) await eventually(() => lost.signal.aborted);
    if (lost) errors.push(lost.signal.reason);
    return { lines: lines(), errors };
  }

  it.each(cases)('in %s is in no log line and in no error when Redis %s', async (form, failure) => {
    const { lines, errors } = await fail(form, failure);
    expect(lines).not.toEqual([]);
    expect(lines.filter((line) => SECRET.test(line))).toEqual([]);
    expect(errors.map(textOf).filter((text) => SECRET.test(text))).toEqual([]);
  });

  const MISTAKES: Record<string, unknown> = {
    'an unknown scheme': `reds://locks:${ENCODED}@host`,
    'a list': [`reds://locks:${ENCODED}@host`],
    'a URL object': new URL(`redis://locks:${ENCODED}@host`),
    'a promise': Promise.resolve(`redis://locks:${ENCODED}@host`),
  };
  it.each(Object.keys(MISTAKES))('is not shown when the connection is %s', async (mistake) => {
    const { lines } = spyOnLogs();
    const connection = MISTAKES[mistake] as RedisConnection;
    const error = await rejection(startApp({ connection }));
    expect(error).toBeInstanceOf(LockConfigurationError);
    expect([inspect(error), ...lines()].filter((text) => SECRET.test(text))).toEqual([]);
  });
});

const LEASE_MS = 3_000;

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

describe('a certificate that clients no longer trust', () => {
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

describe('a `checkServerIdentity` of an application that throws', () => {
  it('rejects each call with what it threw, as long as it does', async () => {
    const { connection } = await ownSecured();
    let isBroken = true;
    const checkServerIdentity = (): undefined => {
      if (isBroken) throw new Error('no such name');
    };
    const tls = { ...connection.tls, checkServerIdentity };
    const { locks } = await startApp({ connection: { ...connection, tls } });
    const error = await rejection(locks.acquire(freshKey(), { waitMs: 300 }));
    expect(error).toMatchObject({ code: 'LOCK_STORE', retryable: true });
    expect(error.message).toContain('`checkServerIdentity` of `connection` threw `no such name`');
    isBroken = false;
    expect((await locks.acquire(freshKey(), { waitMs: 25_000 })).held).toBe(true);
  });
});

describe('a password that was changed', () => {
  it('costs a lock only when its lease is over, and every call reports the reason', async () => {
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
