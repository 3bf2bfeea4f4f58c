import { AsyncLocalStorage } from 'node:async_hooks';
import { Redis } from 'ioredis';
import { type Clock, systemClock } from '../../../../lib/core/clock.js';
import { LockStoreError } from '../../../../lib/core/lock.errors.js';
import { Connection } from '../../../../lib/redis/connection/connection.js';
import { ioredisLibrary } from '../../../../lib/redis/client/ioredis.js';
import { RedisLockStore } from '../../../../lib/redis/redis-lock-store.js';
import { createLockScripts, withHashes } from '../../../../lib/redis/scripts/lock-scripts.js';
import { startRedisServer } from '../../../../scripts/redis.mjs';
import { eventually } from '../../../support/waiting/eventually.js';
import { rejection } from '../../../support/waiting/rejection.js';
import { closeAll, closeLater, freshKey } from '../../../support/apps/lock-app.js';
import { startDisguise } from '../../../support/network/disguise.js';
import { startTcpProxy } from '../../../support/network/tcp-proxy.js';
import { startVip } from '../../../support/network/vip.js';
import { systemRandomness } from '../../../../lib/core/randomness.js';
import { systemAfterTurn } from '../../../../lib/core/runtime.js';

const ignore = (): void => undefined;
const reporter = { debug: ignore, warn: ignore, error: ignore };
const parts = { clock: systemClock, random: systemRandomness, reporter };
const INCREMENT = `return {'incremented', redis.call('INCR', KEYS[1])}`;
const COUNTER = `${freshKey()}:counter`;
const call = (timeoutMs = 500) => ({
  script: withHashes({ ...createLockScripts(), inspect: INCREMENT }).inspect,
  operands: [1, COUNTER],
  key: 'k',
  timeoutMs,
});

function openAdmin(url: string): Redis {
  const client = new Redis(url, { maxRetriesPerRequest: null, disconnectTimeout: 100 });
  client.on('error', ignore);
  closeLater({ close: async () => client.disconnect() });
  return client;
}

const runnerFor = (url: string): Connection =>
  closeLater(new Connection(ioredisLibrary.open(url, parts), systemClock, reporter));

async function ownServer() {
  const server = await startRedisServer();
  closeLater({ close: () => server.stop() });
  const admin = openAdmin(server.url);
  return { ...server, admin };
}

describe('a connection that is being opened while sentinels name one master after the other', () => {
  afterEach(closeAll);

  it('is left once', async () => {
    const { url } = await ownServer();
    const commands = runnerFor(url);
    commands.connect();
    let moves = 0;
    for (let move = 0; move < 12; move += 1) {
      commands.move(
        () => false,
        () => (moves += 1),
      );
    }
    await commands.run(call(20_000));
    expect(moves).toBe(1);
  });
});

describe('a command', () => {
  afterEach(closeAll);

  it('was not sent to a server that does not answer, and is not sent to it later', async () => {
    const { port, admin } = await ownServer();
    const vip = closeLater(await startVip(null));
    const commands = runnerFor(vip.url);
    const error = await rejection<LockStoreError>(commands.run(call(300)));
    expect(error).toMatchObject({ wasSent: false, message: expect.stringContaining('no connection within 300 ms') });
    vip.target = port;
    await eventually(() => commands.run(call()).catch(() => null), { timeoutMs: 20_000 });
    expect(await admin.get(COUNTER)).toBe('1');
  });

  it('was sent to a server that fell silent afterwards', async () => {
    const { port } = await ownServer();
    const vip = closeLater(await startVip(port));
    const commands = runnerFor(vip.url);
    await commands.run(call(5_000));
    vip.forget();
    expect(await rejection(commands.run(call(200)))).toMatchObject({
      wasSent: true,
      message: expect.stringContaining('no answer within 200 ms'),
    });
  });
});

describe('a connection to another database than 0', () => {
  afterEach(closeAll);

  it('is replaced when the server does not answer its SELECT', async () => {
    const { port, admin } = await ownServer();
    let selects = 0;
    const answer = (command: string) => {
      if (!command.startsWith('select')) return undefined;
      selects += 1;
      return selects === 1 ? '' : undefined;
    };
    const server = closeLater(await startDisguise(port, answer));
    await runnerFor(`${server.url}/5`).run(call(20_000));
    expect(await admin.get(COUNTER)).toBeNull();
    expect(selects).toBeGreaterThan(1);
  });
});

describe('connections and timers', () => {
  afterEach(closeAll);

  it('are created in the context in which the store was created, whichever context calls', async () => {
    const context = new AsyncLocalStorage<string>();
    const seen: (string | undefined)[] = [];
    const note = (): void => void seen.push(context.getStore());
    const clock: Clock = {
      ...systemClock,
      setTimer(callback, delayMs) {
        note();
        return systemClock.setTimer(callback, delayMs);
      },
    };
    const { port, url, admin } = await ownServer();
    const proxy = closeLater(await startTcpProxy(port));
    const store = context.run('module', () =>
      closeLater(
        new RedisLockStore({
          connection: proxy.url,
          keyPrefix: 'lock:',
          keepMs: 60_000,
          minReplicas: 0,
          replicaTimeoutMs: 50,
          scripts: createLockScripts(),
          clock,
          random: systemRandomness,
          afterTurn: systemAfterTurn,
          reporter: { ...reporter, debug: note },
        }),
      ),
    );
    let gaps = 0;
    const onMessagesMissed = (): void => {
      note();
      gaps += 1;
    };
    store.listen({ onWakeUp: note, onListening: note, onMessagesMissed });
    const inspect = () => context.run('caller', () => store.inspect('k'));
    context.run('caller', () => store.open());
    await inspect();
    const listeners = async () => (await admin.pubsub('CHANNELS', '*')) as string[];
    await eventually(async () => (await listeners()).length === 1);
    await admin.publish(`lock:wake:${store.clientId}`, 'wake last');
    proxy.refuse(true);
    proxy.cutAll();
    await rejection(inspect());
    proxy.refuse(false);
    await eventually(() => inspect().catch(() => null));
    await eventually(() => gaps > 0);
    expect(url).toContain(String(port));
    expect(seen.length).toBeGreaterThan(5);
    expect(new Set(seen)).toEqual(new Set(['module']));
  });
});
