import { type RedisConnection, type LockStoreError } from '../../lib/index.js';
import { givenClient } from '../support/connections.js';
import { eventually } from '../support/eventually.js';
import { ownRedis, rejection } from '../support/faults.js';
import { closeAll, freshKey, openAdmin, startApp } from '../support/lock-app.js';

const PATIENT = { waitMs: 20_000 };

const CONNECTIONS: [string, (url: string) => RedisConnection][] = [
  ['a connection of its own', (url) => url],
  ['a given client', (url) => givenClient(url, {})],
];

describe.each(CONNECTIONS)('a server in a state that passes, by %s', (_client, open) => {
  afterEach(closeAll);

  it('is asked again when it was made a replica and its connections stay (READONLY)', async () => {
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

  it('is asked again while it loads its data (LOADING)', async () => {
    const slowly = ['--enable-debug-command', 'local', '--key-load-delay', '1000'];
    const server = await ownRedis([...slowly, '--loading-process-events-interval-bytes', '1024']);
    const { locks } = await startApp({ connection: open(server.url) });
    await locks.withLock(freshKey(), () => undefined);
    const filling = server.admin.pipeline();
    for (let i = 0; i < 3_000; i += 1) filling.set(`filler:${i}`, 'x'.repeat(100));
    await filling.exec();
    const watcher = openAdmin(server.url);
    await watcher.ping();
    const reloaded = server.admin.call('DEBUG', 'RELOAD');
    const isLoading = () =>
      watcher.get('filler:1').then(
        () => false,
        (error: Error) => error.message.includes('LOADING'),
      );
    await eventually(isLoading);
    const error = await rejection<LockStoreError>(locks.acquire(freshKey(), { waitMs: 0 }));
    expect(error.message).toContain('LOADING');
    await (await locks.acquire(freshKey(), PATIENT)).release();
    expect(await reloaded).toBe('OK');
  });
});
