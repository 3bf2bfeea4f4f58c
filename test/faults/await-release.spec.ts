import { type RedisLockModuleOptions } from '../../lib/index.js';
import { closeAll, freshKey, startApp } from '../support/apps/lock-app.js';
import { ownRedis, proxyTo } from '../support/redis/own-redis.js';
import { eventually } from '../support/waiting/eventually.js';
import { rejection } from '../support/waiting/rejection.js';

const LEASE_MS = 4_000;
const NO_WAIT: RedisLockModuleOptions = { awaitRelease: false, leaseMs: LEASE_MS };

describe('a call that does not wait for its release', () => {
  afterEach(closeAll);

  it('rejects when its lease was over before its work was, as one that waits', async () => {
    const { url } = await ownRedis();
    const proxy = await proxyTo(url);
    const app = await startApp({ ...NO_WAIT, connection: proxy.url });
    const call = app.locks.withLock(freshKey(), async ({ signal }) => {
      proxy.blackhole(true);
      await eventually(() => signal.aborted);
      return 'done anyway';
    });
    expect(await rejection(call)).toMatchObject({ reason: 'unreachable', result: 'done anyway' });
  });
});
