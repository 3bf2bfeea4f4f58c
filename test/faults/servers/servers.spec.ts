import { type AddressInfo, type Socket, connect, createServer } from 'node:net';
import { type Redis } from 'ioredis';
import { type LockStoreError, type RedisLockModuleOptions, type RedisLockService } from '../../../lib/index.js';
import { slotOf } from '../../../lib/redis/client/cluster-slots.js';
import { ROLE_RECHECK_MS } from '../../../lib/redis/timing.js';
import { cli } from '../../cli/support/cli.js';
import { bulk, startDisguise } from '../../support/network/disguise.js';
import { type Frame, FrameReader, commandText } from '../../support/network/resp-frames.js';
import { openCluster, startClusterNode } from '../../support/redis/cluster-node.js';
import { LIBRARY } from '../../support/clients/library.js';
import { keyOn } from '../../support/redis/cluster-slots.js';
import { isCommand, ownRedis } from '../../support/redis/own-redis.js';
import { closeAll, closeLater, freshKey, openAdmin, startApp } from '../../support/apps/lock-app.js';
import { eventually } from '../../support/waiting/eventually.js';
import { rejection } from '../../support/waiting/rejection.js';
import { untilWaiting } from '../../support/waiting/waiters.js';
import { spyOnLogs } from '../security/support.js';
import { ownCluster, ownSentinels } from '../../support/redis/own-topologies.js';

/** The ready check of ioredis needs INFO, too; node-redis has none, and refuses the option. */
const WITHOUT_CHECK = LIBRARY === 'node-redis' ? {} : { enableReadyCheck: false };

/** A call that would retry for long. */
const PATIENT = { waitMs: 60_000 };
const EVICTING = ['--maxmemory', '50mb', '--maxmemory-policy', 'allkeys-lru'];
/** As Garnet 1.0 answers (libs/server/Metrics/Info/GarnetInfoMetrics.cs, CmdStrings.cs). */
const GARNET = bulk('# Server\r\ngarnet_version:1.0.60\r\nserver_name:garnet\r\nrun_id:abc\r\nredis_version:7.4.3\r\n');

/**
 * A proxy that sends each command with keys to the one of two servers that the first key belongs to, as Envoy and twemproxy do.
 * `instead`: what it answers in place of a server, if anything.
 */
async function startShardingProxy(
  instead: (command: string, shard: number) => string | undefined = () => undefined,
): Promise<{ readonly url: string; readonly shards: readonly Redis[] }> {
  const servers = [await ownRedis(), await ownRedis()];
  const sockets = new Set<Socket>();
  const server = createServer((client) => {
    const owed: { readonly shard: Socket; readonly instead: string | undefined }[] = [];
    const replies = new Map<Socket, Buffer[]>();
    const shards = servers.map(({ port }) => connect(port, '127.0.0.1'));
    for (const socket of [client, ...shards]) {
      sockets.add(socket.setNoDelay(true));
      socket.on('error', () => undefined).on('close', () => [client, ...shards].forEach((one) => one.destroy()));
    }
    for (const shard of shards) {
      const frames = new FrameReader();
      const come: Buffer[] = [];
      replies.set(shard, come);
      shard.on('data', (bytes) => {
        for (const frame of frames.push(bytes)) come.push(frame.bytes);
        for (let next = owed[0]; next && replies.get(next.shard)!.length > 0; next = owed[0]) {
          const reply = replies.get(next.shard)!.shift()!;
          client.write(next.instead ?? reply);
          owed.shift();
        }
      });
    }
    const commands = new FrameReader();
    client.on('data', (bytes) => {
      for (const frame of commands.push(bytes)) {
        const command = commandText(frame);
        const [name, , , key] = command.split(' ');
        const number = /^evalsha$/i.test(name!) && key ? slotOf(key) % 2 : shardOfEval(frame);
        const shard = shards[number]!;
        owed.push({ shard, instead: instead(command, number) });
        shard.write(frame.bytes);
      }
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const close = async (): Promise<void> => {
    server.close();
    for (const socket of sockets) socket.destroy();
  };
  closeLater({ close });
  const { port } = server.address() as AddressInfo;
  return { url: `redis://127.0.0.1:${port}`, shards: servers.map(({ admin }) => admin) };
}

/** The text of a script has blanks, so its first key is looked for by the prefix of all keys. */
function shardOfEval(frame: Frame): number {
  const [, key] = /^eval .*? \d+ (lock:\S+)/is.exec(commandText(frame)) ?? [];
  return key === undefined ? 0 : slotOf(key) % 2;
}

afterEach(closeAll);
afterEach(() => jest.restoreAllMocks());

/** What was said about servers. */
function spyOnServers() {
  const { lines } = spyOnLogs();
  return () => lines().filter((line) => /Redis \(.*\): This server|Redis \(.*\): The `maxmemory/.test(line));
}

async function told(said: () => string[], pattern: RegExp): Promise<void> {
  await eventually(() => said().length > 0);
  expect(said()).toHaveLength(1);
  expect(said()[0]).toMatch(pattern);
}

async function disguised(answer: (command: string) => string | undefined, args: string[] = []) {
  const server = await ownRedis(args);
  return closeLater(await startDisguise(server.port, answer));
}

/** A server that says it is this version of Redis. */
const ofVersion = (version: string) => async (): Promise<string> =>
  (await disguised((command) => (isInfo(command) ? bulk(`redis_version:${version}\r\n`) : undefined))).url;

async function withoutWait(): Promise<string> {
  const [master, replica] = [await ownRedis(['--rename-command', 'WAIT', '']), await ownRedis()];
  await replica.admin.call('REPLICAOF', '127.0.0.1', master.port);
  await eventually(async () => (await master.admin.info('replication')).includes('state=online'));
  return master.url;
}

const isInfo = (command: string): boolean => /^info\b/i.test(command);
const isScript = (command: string): boolean => /^eval/i.test(command);

describe('a server that cannot be safe', () => {
  it('is refused: Garnet, before any lock is asked for', async () => {
    const said = spyOnServers();
    const garnet = await disguised((command) => (isInfo(command) ? GARNET : undefined));
    const { locks } = await startApp({ connection: garnet.url });
    const error = await rejection<LockStoreError>(locks.acquire(freshKey(), PATIENT));
    expect(error).toMatchObject({ code: 'LOCK_STORE', retryable: false, wasSent: false });
    expect(error.message).toMatch(/Garnet 1\.0\.60.*LuaTransactionMode.*Use Redis or Valkey/);
    expect(garnet.commands.filter((command) => command.startsWith('evalsha'))).toEqual([]);
    expect((await rejection(locks.acquire(['a', 'b'], PATIENT))).message).toContain('Garnet');
    await told(said, /Garnet/);
  });

  it.each([
    ['Garnet without Lua', 'ERR This instance has Lua scripting support disabled'],
    ['Valkey without its Lua module', "ERR Could not find scripting engine 'lua'"],
    ['a server without EVAL', "ERR unknown command 'EVALSHA', with args beginning with: 'x'"],
  ])('is refused: %s', async (_what, refusal) => {
    const said = spyOnServers();
    const server = await disguised((command) => (isScript(command) ? `-${refusal}\r\n` : undefined));
    const { locks } = await startApp({ connection: server.url });
    await told(said, /refused a script.*started with Lua/);
    const error = await rejection<LockStoreError>(locks.acquire(freshKey(), PATIENT));
    expect(error).toMatchObject({ code: 'LOCK_STORE', retryable: false });
    expect(error.message).toMatch(/use Lua scripts.*started with Lua/);
  });

  it('is refused: a sentinel', async () => {
    const started = await ownSentinels();
    const said = spyOnServers();
    const { locks } = await startApp({ connection: started.sentinels[0]!.url });
    const error = await rejection<LockStoreError>(locks.acquire(freshKey(), PATIENT));
    expect(error.message).toMatch(/is a sentinel.*sentinels: \[\.\.\.\]/);
    await eventually(() => said().some((line) => line.includes('is a sentinel')));
  });

  it('is refused: a replica that takes writes, until it is promoted', async () => {
    const said = spyOnServers();
    const [master, replica] = [await ownRedis(), await ownRedis(['--replica-read-only', 'no'])];
    await replica.admin.call('REPLICAOF', '127.0.0.1', master.port);
    await eventually(async () => (await replica.admin.info('replication')).includes('master_link_status:up'));
    const { locks } = await startApp({ connection: replica.url });
    const error = await rejection<LockStoreError>(locks.acquire(freshKey(), { waitMs: 300 }));
    expect(error).toMatchObject({ retryable: true });
    expect(error.message).toMatch(new RegExp(`replica of 127.0.0.1:${master.port} that takes writes`));
    const waiting = locks.acquire(freshKey(), PATIENT);
    await replica.admin.call('REPLICAOF', 'NO', 'ONE');
    await (await waiting).release();
    await told(said, /takes writes/);
  });
});

/** Makes a master a replica that takes writes; it keeps its data, since its new master refuses to send any. */
async function demote({ admin }: Awaited<ReturnType<typeof ownRedis>>): Promise<void> {
  const other = await ownRedis(['--rename-command', 'PSYNC', '', '--rename-command', 'SYNC', '']);
  await admin.config('SET', 'replica-read-only', 'no');
  await admin.call('REPLICAOF', '127.0.0.1', other.port);
}

describe('a master that an operator makes a replica while it serves locks', () => {
  it('is refused although it takes writes, and holds end there, until it is promoted', async () => {
    const server = await ownRedis();
    const { locks } = await startApp({ connection: server.url });
    const held = await locks.acquire(freshKey(), { leaseMs: 4_000 });
    const other = await locks.acquire(freshKey(), { leaseMs: 60_000, renew: false });
    await demote(server);
    await eventually(() => held.signal.aborted, { timeoutMs: 20_000 });
    expect(held.signal.reason).toMatchObject({ code: 'LOCK_LOST', reason: 'unreachable' });
    expect((await rejection(other.extend(60_000))).message).toContain('that takes writes');
    const error = await rejection<LockStoreError>(locks.acquire(freshKey(), { waitMs: 300 }));
    expect(error).toMatchObject({ retryable: true, message: expect.stringContaining('that takes writes') });
    const waiting = locks.acquire(freshKey(), PATIENT);
    await server.admin.call('REPLICAOF', 'NO', 'ONE');
    await (await waiting).release();
  }, 60_000);

  it('hands no lock over', async () => {
    const server = await ownRedis();
    const [holder, waiter] = [await startApp({ connection: server.url }), await startApp({ connection: server.url })];
    const [key, refused] = [freshKey(), freshKey()];
    const held = await holder.locks.acquire(key, { leaseMs: 60_000 });
    const waiting = rejection(waiter.locks.acquire(key, { waitMs: 5_000 }));
    await untilWaiting(holder, key);
    await demote(server);
    const isRefused = () => waiter.locks.withLock(refused, { waitMs: 0 }, () => false).catch(() => true);
    await eventually(isRefused);
    await held.release();
    expect((await waiting).message).toContain('that takes writes');
  });

  it('grants nothing that is asked for after a pause', async () => {
    const server = await ownRedis();
    const { locks } = await startApp({ connection: server.url });
    await locks.withLock(freshKey(), () => undefined);
    await demote(server);
    const since = performance.now();
    await eventually(() => performance.now() - since > ROLE_RECHECK_MS);
    expect((await rejection(locks.acquire(freshKey(), { waitMs: 0 }))).message).toContain('that takes writes');
  });
});

describe('an operator is notified once', () => {
  it.each(['allkeys-lru', 'volatile-ttl'])('that the memory policy may evict locks: %s', async (policy) => {
    const said = spyOnServers();
    const { admin, url } = await ownRedis(['--maxmemory', '50mb', '--maxmemory-policy', policy]);
    const { locks } = await startApp({ connection: url });
    await told(said, new RegExp(`is ${policy}: .*noeviction`));
    await admin.call('CLIENT', 'KILL', 'TYPE', 'normal', 'SKIPME', 'yes');
    await locks.withLock(freshKey(), () => undefined);
    expect(said()).toHaveLength(1);
  });

  it('that the server is a replica, which may be promoted', async () => {
    const said = spyOnServers();
    const [master, replica] = [await ownRedis(), await ownRedis()];
    await replica.admin.call('REPLICAOF', '127.0.0.1', master.port);
    const { locks } = await startApp({ connection: replica.url });
    await told(said, /is a replica of .*refuses locks until it is promoted/);
    const waiting = locks.acquire(freshKey(), PATIENT);
    await replica.admin.call('REPLICAOF', 'NO', 'ONE');
    await (await waiting).release();
  });

  it('that the server is a node of a cluster, whose own locks it serves', async () => {
    const said = spyOnServers();
    const { port } = await startClusterNode();
    const { locks } = await startApp({ connection: `redis://127.0.0.1:${port}` });
    await locks.withLock(freshKey(), () => undefined);
    await told(said, /is a node of a cluster.*cluster: \[\.\.\.\]/);
  });

  const TOLD: [string, () => Promise<string>, RedisLockModuleOptions, RegExp][] = [
    [
      'there are too few replicas for `minReplicas`',
      async () => (await ownRedis()).url,
      { minReplicas: 2 },
      /has 0 replicas now, and `minReplicas` is 2/,
    ],
    ['WAIT is missing while `minReplicas` is set', withoutWait, { minReplicas: 1 }, /refused WAIT .*unknown command/],
    ['it is too old for the scripts', ofVersion('4.0.14'), {}, /reports that it is Redis 4\.0\.14.*need Redis 5/],
    [
      'it is too old for the history, if there is one',
      ofVersion('6.0.20'),
      { history: true },
      /reports that it is Redis 6\.0\.20\. The history of the locks needs Redis 6\.2.* leave out `history`/,
    ],
  ];
  it.each(TOLD)('that %s', async (_what, start, options, pattern) => {
    const said = spyOnServers();
    await startApp({ connection: await start(), ...options });
    await told(said, pattern);
  });
});

describe('nothing is said', () => {
  const limited = (maxmemory: string, policy: string) => async () => ({
    port: (await ownRedis(['--maxmemory', maxmemory, '--maxmemory-policy', policy])).port,
  });
  const withoutInfo = async () => {
    const refusal = "-ERR unknown command 'info', with args beginning with:\r\n";
    const { port } = await disguised((command) => (isInfo(command) ? refusal : undefined), EVICTING);
    return { port, ...WITHOUT_CHECK };
  };
  const withoutRights = async () => {
    const { admin, port } = await ownRedis(EVICTING);
    await admin.call('ACL', 'SETUSER', 'locks', 'on', '>secret', '~*', '&*', '+@all', '-info', '-config');
    return { port, username: 'locks', password: 'secret', ...WITHOUT_CHECK };
  };

  it.each([
    ['of a policy that never applies, without a limit', limited('0', 'allkeys-lru')],
    ['of a limit with noeviction', limited('50mb', 'noeviction')],
    ['where INFO was renamed, and locks work', withoutInfo],
    ['where the user lacks the permissions, and locks work', withoutRights],
  ])('%s', async (_what, start) => {
    const said = spyOnServers();
    const { locks } = await startApp({ connection: await start() });
    await locks.withLock(freshKey(), () => undefined);
    await (await locks.acquire([freshKey(), freshKey()])).release();
    expect(said()).toEqual([]);
  });

  it('where a service runs no script without a key, or answers INFO by something else', async () => {
    const said = spyOnServers();
    const odd = (command: string) => (isInfo(command) ? bulk('# Server\r\nmaxmemory:x\r\nrole\r\n') : undefined);
    const { url, commands } = await disguised(odd);
    const { locks } = await startApp({ connection: url });
    await locks.withLock(freshKey(), () => undefined);
    await eventually(() => commands.some((command) => command.startsWith('eval return 1 1 lock:')));
    expect(said()).toEqual([]);
  });

  it('while Redis is away, and it is reported when it is back', async () => {
    const said = spyOnServers();
    const server = await ownRedis(EVICTING);
    await server.kill('SIGSTOP');
    const { locks } = await startApp({ connection: server.url });
    expect(said()).toEqual([]);
    await server.kill('SIGCONT');
    await locks.withLock(freshKey(), { waitMs: 20_000 }, () => undefined);
    await told(said, /allkeys-lru/);
  });
});

describe('the servers of a cluster', () => {
  it('are asked each, and a policy is reported once', async () => {
    const cluster = await ownCluster();
    const said = spyOnServers();
    for (const { url } of cluster.masters) {
      const admin = openAdmin(url);
      await admin.config('SET', 'maxmemory', '50mb');
      await admin.config('SET', 'maxmemory-policy', 'allkeys-lfu');
    }
    const { locks } = await startApp({ connection: cluster.connection });
    for (let i = 0; i < 3; i += 1) await locks.withLock(keyOn(i), () => undefined);
    await told(said, /allkeys-lfu/);
  }, 60_000);

  it('are not taken for servers of a single client, and a replica of them is not reported', async () => {
    const said = spyOnServers();
    const { port } = await startClusterNode();
    for (const connection of [openCluster(port), { cluster: [{ host: '127.0.0.1', port }] }]) {
      const { locks } = await startApp({ connection });
      await locks.withLock(freshKey(), () => undefined);
    }
    expect(said()).toEqual([]);
  });
});

describe('the masters of a quorum', () => {
  it('are asked each: a policy is reported for each, and one Garnet of three has no vote', async () => {
    const said = spyOnServers();
    const garnet = await disguised((command) => (isInfo(command) ? GARNET : undefined));
    const [a, b] = [await ownRedis(EVICTING), await ownRedis(EVICTING)];
    const { locks } = await startApp({ connection: [a.url, b.url, garnet.url] });
    await locks.withLock(freshKey(), () => undefined);
    await eventually(() => said().length === 3);
    expect(said().filter((line) => line.includes('allkeys-lru'))).toHaveLength(2);
    expect(said().filter((line) => line.includes('Garnet'))).toHaveLength(1);
    expect(garnet.commands.filter(isCommand('acquire'))).toEqual([]);
  });
});

describe('a proxy that spreads keys over several servers', () => {
  it('is refused, since it sends a script of several keys to the server of the first one', async () => {
    const { url, shards } = await startShardingProxy();
    const { lines } = spyOnLogs();
    const { locks } = await startApp({ connection: url });
    await eventually(() => lines().some((line) => /spreads keys over several servers/.test(line)));
    const keys = Array.from({ length: 8 }, () => freshKey());
    for (const key of [keys, keys[0]!]) {
      const error = await rejection<LockStoreError>(locks.acquire(key, PATIENT));
      expect(error.message).toMatch(/spreads keys over several servers.*one Redis/);
      expect(error.retryable).toBe(false);
    }
    for (const shard of shards) expect(await shard.dbsize()).toBe(0);
    const { code, stdout } = await cli(['doctor', '--json', '--url', url]);
    expect(code).toBe(1);
    expect(stdout).toContain('spreads keys over several servers');
  });

  const untilRefused = (locks: RedisLockService): Promise<unknown> =>
    eventually(
      async () => {
        const tried = locks.withLock([freshKey(), freshKey()], { waitMs: 0 }, () => '');
        return /spreads keys/.test(await tried.catch(({ message }: Error) => message));
      },
      { timeoutMs: 20_000 },
    );

  it.each([
    ['one of them fails', '-ERR upstream failure', 1],
    ['one of them loads its data', '-LOADING Redis is loading the dataset in memory', 0],
  ])('is refused although no answer can be had while the app starts, since %s', async (_what, error, failing) => {
    let failures: number | null = 0;
    const { url } = await startShardingProxy((command, shard) => {
      if (failures === null || shard !== failing || !isScript(command)) return undefined;
      failures += 1;
      return `${error}\r\n`;
    });
    const { locks } = await startApp({ connection: url });
    await eventually(() => failures! > 0);
    failures = null;
    await untilRefused(locks);
  });

  it('is refused although it answers no INFO of a client', async () => {
    const { url } = await startShardingProxy((command) =>
      isInfo(command) ? "-ERR unsupported command 'info'\r\n" : undefined,
    );
    const { locks } = await startApp({ connection: { port: Number(new URL(url).port), ...WITHOUT_CHECK } });
    await untilRefused(locks);
  });
});
