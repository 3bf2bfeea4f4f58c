import { type RedisConnection, type LockStoreError } from '../../../lib/index.js';
import { givenClient } from '../../support/redis/connections.js';
import { eventually } from '../../support/waiting/eventually.js';
import { ownRedis } from '../../support/redis/own-redis.js';
import { closeAll, freshKey, startApp } from '../../support/apps/lock-app.js';
import { rejection } from '../../support/waiting/rejection.js';

const PATIENT = { waitMs: 20_000 };

const CONNECTIONS: [string, (url: string) => RedisConnection][] = [
  ['a connection of its own', (url) => url],
  ['a given client', (url) => givenClient(url, {})],
];

describe.each(CONNECTIONS)('a server in a temporary state, by %s', (_client, open) => {
  afterEach(closeAll);

  it('is retried when it became a replica and kept its connections (READONLY)', async () => {
    const [server, other] = [await ownRedis(), await ownRedis()];
    const { locks } = await startApp({ connection: open(server.url) });
    await locks.withLock(freshKey(), () => undefined);
    await server.admin.call('REPLICAOF', '127.0.0.1', other.port);
    await eventually(async () => (await server.admin.info('replication')).includes('master_link_status:up'));
    const error = await rejection<LockStoreError>(locks.acquire(freshKey(), { waitMs: 300 }));
    expect(error.message).toContain('READONLY');
    expect(error.retryable).toBe(true);
    const waiting = locks.acquire(freshKey(), PATIENT);
    await server.admin.call('REPLICAOF', 'NO', 'ONE');
    await (await waiting).release();
  });

  it('is retried while it loads its data (LOADING)', async () => {
    // Between two keys it answers only after so many bytes; and it loads what it gets from a master.
    const full = await ownRedis(['--rdbcompression', 'no', '--repl-diskless-sync-delay', '0']);
    for (let i = 0; i < 60; i += 1) await full.admin.setrange(`filler:${i}`, 2 ** 20 - 1, 'x');
    const server = await ownRedis(['--key-load-delay', '80000']);
    const { locks } = await startApp({ connection: open(server.url) });
    await locks.withLock(freshKey(), () => undefined);
    await server.admin.call('REPLICAOF', '127.0.0.1', full.port);
    const isLoading = () =>
      server.admin.get('filler:1').then(
        () => false,
        (error: Error) => error.message.includes('LOADING'),
      );
    await eventually(isLoading);
    const error = await rejection<LockStoreError>(locks.acquire(freshKey(), { waitMs: 0 }));
    expect(error.message).toContain('LOADING');
    const waiting = locks.acquire(freshKey(), PATIENT);
    await eventually(async () => (await server.admin.call('REPLICAOF', 'NO', 'ONE')) === 'OK');
    await (await waiting).release();
  });
});
