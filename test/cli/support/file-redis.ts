import { type Redis } from 'ioredis';
import { type StartedRedis, startRedisServer } from '../../../scripts/redis.mjs';
import { openAdmin } from '../../support/apps/lock-app.js';

/** Starts a Redis for the tests of one file, each of which finds it empty. Only tests that change its settings need a separate one. */
export function fileRedis(): { readonly url: string; readonly admin: Redis } {
  const found = {} as { url: string; admin: Redis };
  let server: StartedRedis;
  beforeAll(async () => void ({ url: found.url } = server = await startRedisServer()));
  beforeEach(async () => {
    found.admin = openAdmin(found.url);
    await found.admin.flushall();
  });
  afterAll(() => server.stop());
  return found;
}
