import 'reflect-metadata';
import { Test } from '@nestjs/testing';
import { RedisLockModule, RedisLockService } from '../../../lib/index.js';
import { eventually } from '../../support/waiting/eventually.js';
import { ownRedis } from '../../support/redis/own-redis.js';
import { closeAll } from '../../support/apps/lock-app.js';

describe('an app whose test replaces the service by a mock', () => {
  afterEach(closeAll);

  it('closes, and leaves no connection', async () => {
    const { url, admin } = await ownRedis();
    const clients = async (): Promise<number> =>
      String(await admin.client('LIST'))
        .trim()
        .split('\n').length;
    const before = await clients();
    const app = await Test.createTestingModule({ imports: [RedisLockModule.forRoot({ connection: url })] })
      .overrideProvider(RedisLockService)
      .useValue({ withLock: (_key: string, work: () => unknown) => work() })
      .compile();
    await app.init();
    await app.close();
    await eventually(async () => (await clients()) === before);
  });
});
