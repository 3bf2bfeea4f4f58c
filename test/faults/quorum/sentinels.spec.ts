import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { type RedisOptions } from 'ioredis';
import { type LockBusyError, type LockStoreError } from '../../../lib/index.js';
import { makeFolder } from '../../../scripts/redis.mjs';
import { eventually } from '../../support/waiting/eventually.js';
import { ownRedis } from '../../support/redis/own-redis.js';
import { closeAll, closeLater, freshKey, startApp } from '../../support/apps/lock-app.js';
import { heldRow } from '../../support/redis/quorum-net.js';
import { rejection } from '../../support/waiting/rejection.js';

/** A master, and one sentinel that knows it by the name which all sentinels use when nobody chooses another. */
async function startGroup() {
  const master = await ownRedis();
  const folder = makeFolder();
  closeLater({ close: async () => folder.remove() });
  const file = join(folder.path, 'sentinel.conf');
  writeFileSync(file, `sentinel monitor mymaster 127.0.0.1 ${master.port} 1\n`);
  const sentinel = await ownRedis([file, '--sentinel', '--dir', folder.path]);
  const address = { host: '127.0.0.1', port: sentinel.port };
  const connection: RedisOptions = { sentinels: [address], name: 'mymaster' };
  return { master, connection, name: `sentinel mymaster of 127.0.0.1:${sentinel.port}` };
}

describe('a quorum of groups of sentinels that all name their master the same', () => {
  afterEach(closeAll);

  it('holds locks, and reports what each group answered by its sentinels', async () => {
    const groups = await Promise.all([startGroup(), startGroup(), startGroup()]);
    const connection = groups.map((group) => group.connection);
    const names = groups.map(({ name }) => name);
    const [a, b] = [await startApp({ connection }), await startApp({ connection })];
    const key = freshKey();
    const lock = await a.locks.acquire(key, { leaseMs: 20_000 });
    const admins = groups.map(({ master }) => master.admin);
    await eventually(async () => (await heldRow(admins, key)) === '111');
    const busy = await rejection<LockBusyError>(b.locks.acquire(key, { waitMs: 0 }));
    expect(busy.nodes!.map(({ node }) => node)).toEqual(names);
    await lock.release();
    await Promise.all(groups.slice(1).map(({ master }) => master.kill()));
    const error = await rejection<LockStoreError>(a.locks.acquire(key, { waitMs: 500 }));
    for (const name of names) expect(error.message).toContain(`${name} `);
  });
});
