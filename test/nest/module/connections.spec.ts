import { setTimeout } from 'node:timers/promises';
import { Inject } from '@nestjs/common';
import { Test } from '@nestjs/testing';
import { createLockScripts, LOCK_SCRIPTS, RedisLockModule, RedisLockService } from '../../../lib/index.js';
import { lua } from '../../../lib/redis/scripts/index.js';
import { eventually } from '../../support/waiting/eventually.js';
import { closeAll, freshKey, openAdmin, startApp } from '../../support/apps/lock-app.js';
import { redisUrl } from '../../support/topologies/topology.js';

afterEach(closeAll);

describe('a given client', () => {
  it('runs the scripts, and is not closed with the app', async () => {
    const client = openAdmin();
    const commands: string[] = [];
    const evalsha = client.evalsha.bind(client) as (...args: unknown[]) => Promise<unknown>;
    Object.assign(client, {
      evalsha: (...args: unknown[]) => {
        commands.push('evalsha');
        return evalsha(...args);
      },
    });
    const { locks, app } = await startApp({ connection: client });
    await (await locks.acquire(freshKey())).release();
    expect(commands).toEqual(['evalsha', 'evalsha']);
    await app.close();
    expect(await client.ping()).toBe('PONG');
  });
});

describe('a connection that the module opens', () => {
  it('is closed with the app, as is its subscriber', async () => {
    const admin = openAdmin();
    const clientName = freshKey('own').replaceAll('-', '');
    const { port, hostname } = new URL(redisUrl());
    const connection = { host: hostname, port: Number(port), connectionName: clientName };
    const { app } = await startApp({ connection });
    const count = async () => String(await admin.client('LIST')).split(`name=${clientName}`).length - 1;
    await eventually(async () => (await count()) === 2);
    await app.close();
    await eventually(async () => (await count()) === 0);
  });
});

describe('an app that does not start', () => {
  it('leaves no connection open', async () => {
    const admin = openAdmin();
    const connectionName = freshKey('failed').replaceAll('-', '');
    const { port, hostname } = new URL(redisUrl());
    const connection = { host: hostname, port: Number(port), connectionName, retryStrategy: () => null };
    class Needy {
      constructor(@Inject('missing') readonly missing: unknown) {}
    }
    const imports = [RedisLockModule.forRoot({ connection })];
    await expect(Test.createTestingModule({ imports, providers: [Needy] }).compile()).rejects.toThrow('missing');
    const open = async () => {
      const clients = String(await admin.client('LIST')).split('\n');
      return clients
        .filter((line) => line.includes(`name=${connectionName}`))
        .map((line) => /id=(\d+)/.exec(line)![1]!);
    };
    try {
      await eventually(async () => (await open()).length === 0);
      await setTimeout(200);
      expect(await open()).toEqual([]);
    } finally {
      for (const id of await open()) await admin.call('CLIENT', 'KILL', 'ID', id);
    }
  });
});

describe('LOCK_SCRIPTS', () => {
  const marked = () => {
    const scripts = createLockScripts();
    return { ...scripts, inspect: lua`${scripts.inspect}\n-- replaced` };
  };

  it.each([
    [
      'overridden by a test',
      () =>
        Test.createTestingModule({ imports: [RedisLockModule.forRoot({ connection: redisUrl() })] })
          .overrideProvider(LOCK_SCRIPTS)
          .useFactory({ factory: marked }),
    ],
    [
      'replaced in the definition of the module',
      () => {
        const lockModule = RedisLockModule.forRoot({ connection: redisUrl() });
        const providers = [...(lockModule.providers ?? []), { provide: LOCK_SCRIPTS, useFactory: marked }];
        return Test.createTestingModule({ imports: [{ ...lockModule, providers }] });
      },
    ],
  ])('%s are the scripts that run', async (_how, builder) => {
    const admin = openAdmin();
    const app = await (await builder().compile()).init();
    await app.get(RedisLockService).inspect(freshKey());
    expect(await admin.script('EXISTS', marked().inspect.sha1)).toEqual([1]);
    await app.close();
  });
});
