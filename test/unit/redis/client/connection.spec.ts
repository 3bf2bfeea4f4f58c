import { systemRandomness } from '../../../../lib/core/randomness.js';
import { ClusterClient } from '../../../../lib/redis/client/cluster.js';
import { type SessionListener, SingleClient } from '../../../../lib/redis/client/redis-client.js';
import { type RedisNatMap } from '../../../../lib/redis/client/redis-connection.js';
import { type ServerAddress } from '../../../../lib/redis/client/server-address.js';
import { CONNECT_TIMEOUT_MS, GREETING_MS } from '../../../../lib/redis/timing.js';
import { FakeClock, settled } from '../../../support/core/fake-clock.js';
import { FakeReporter } from '../../../support/core/fake-store.js';
import { type Answering, type FakeSession, planOfFake } from '../../../support/redis/fake-session.js';
import { rejection } from '../../../support/waiting/rejection.js';

const AT = { host: '10.0.0.1', port: 7_000 };
const partsWith = (clock = new FakeClock()) => ({ clock, random: systemRandomness, reporter: new FakeReporter() });

/** A client whose server answers each command with this. */
async function answering(answer: unknown): Promise<SingleClient> {
  const client = new SingleClient(
    planOfFake(AT, () => answer),
    partsWith(),
  );
  await client.connect();
  return client;
}

const NONSENSE = [null, undefined, '', 'OK', 7.5, Number.NaN, {}, [], [null], ['1'], ['1', '2', '3']];

describe('the answer to TIME', () => {
  it('is a time in microseconds', async () => {
    expect(await (await answering(['1700000000', '123456'])).time()).toBe(1_700_000_000_123_456);
    expect(await (await answering([1_700_000_000, 5])).time()).toBe(1_700_000_000_000_005);
  });

  it.each([...NONSENSE, ['-1', '0'], ['x', '0'], ['1', ''], ['1', null], ['1e3', '0']])(
    'is refused: %j',
    async (answer) => {
      await expect((await answering(answer)).time()).rejects.toThrow('the answer to TIME is not a time');
    },
  );
});

describe('the answer to SCAN', () => {
  it('is a cursor and keys', async () => {
    expect(await (await answering(['17', ['a', 'b']])).scan('0', '*', 100)).toEqual(['17', ['a', 'b']]);
    expect(await (await answering([0, []])).scan('0', '*', 100)).toEqual(['0', []]);
  });

  it.each([...NONSENSE, ['x', []], ['-1', []], ['1', 'a'], ['1', [null]], ['1', [['a']]], [['1'], null]])(
    'is refused: %j',
    async (answer) => {
      const scanned = (await answering(answer)).scan('0', '*', 100);
      await expect(scanned).rejects.toThrow('the answer to SCAN has no cursor and keys');
    },
  );
});

describe('the answer to WAIT', () => {
  it('is a number of replicas', async () => {
    expect(await (await answering(2)).wait(1, 10)).toBe(2);
  });

  it.each([null, undefined, '', '2', 'OK', [], [2], {}, Number.NaN, 1.5, -1])('is refused: %j', async (answer) => {
    await expect((await answering(answer)).wait(1, 10)).rejects.toThrow('the answer to WAIT is not a number');
  });
});

describe('a connection', () => {
  it('leaves a server that accepts it and stays silent, again and again', async () => {
    const [clock, sessions]: [FakeClock, FakeSession[]] = [new FakeClock(), []];
    const silent = { ...planOfFake(AT, () => undefined, sessions), connectTimeout: 1_000 };
    const target = {
      open: (listener: SessionListener) => silent.target.open({ ...listener, onReady: () => undefined }),
    };
    const client = new SingleClient({ ...silent, target }, partsWith(clock));
    const failed = rejection(client.connect());
    await settled();
    expect(client.status).toBe('connected');
    await clock.advance(GREETING_MS + 1_000);
    expect((await failed).message).toBe('the connection ended before it was ready');
    expect(sessions.length).toBeGreaterThan(1);
    expect(sessions[0]!.isWritable).toBe(false);
    await client.close();
    expect(clock.timers).toBe(0);
  });

  it('hears nothing of a session that has ended', async () => {
    const sessions: FakeSession[] = [];
    const client = new SingleClient(
      planOfFake(AT, () => 1, sessions),
      partsWith(),
    );
    const heard: string[] = [];
    await client.connect();
    client.on('message', (_channel, text) => heard.push(text));
    sessions[0]!.listener.onMessage('c', 'before');
    client.disconnect();
    sessions[0]!.listener.onMessage('c', 'after');
    sessions[0]!.listener.onReady();
    sessions[0]!.listener.onOver(new Error('late'));
    expect([client.status, heard]).toEqual(['ended', ['before']]);
  });
});

describe('a cluster', () => {
  /** Two nodes; each answers CLUSTER SLOTS with the shards. */
  async function openCluster(shards: unknown, natMap?: RedisNatMap, seeds: readonly ServerAddress[] = [AT]) {
    const clock = new FakeClock();
    const answer: Answering = ([command]) => (command === 'cluster' ? shards : 'OK');
    const plan = { seeds: async () => seeds, natMap, node: (at: ServerAddress) => planOfFake(at, answer) };
    const cluster = new ClusterClient(plan, partsWith(clock));
    const errors: Error[] = [];
    cluster.on('error', (error) => errors.push(error));
    await cluster.connect().catch(() => undefined);
    return { cluster, clock, errors };
  }
  const shard = (host: unknown, port: unknown = 7_001, slots: readonly [unknown, unknown] = [0, 16_383]) => [
    [...slots, [host, port]],
  ];

  it('knows the master of a key', async () => {
    const { cluster } = await openCluster(shard('10.0.0.2'));
    expect(cluster.masterAddressOf('lock:a')).toEqual({ host: '10.0.0.2', port: 7_001 });
    expect(cluster.masterOf('lock:a')?.address).toBe('10.0.0.2:7001');
    await cluster.close();
  });

  it.each([null, '', '?'])('reaches a node that names no host (%j) at the one that was asked', async (host) => {
    const { cluster } = await openCluster(shard(host));
    expect(cluster.masterOf('lock:a')?.address).toBe('10.0.0.1:7001');
    await cluster.close();
  });

  it.each<[string, RedisNatMap]>([
    ['a table', { 'b.invalid:1': { host: '10.0.0.9', port: 1 } }],
    ['a function', (told) => (told === 'b.invalid:1' ? { host: '10.0.0.9', port: 1 } : null)],
  ])('reaches a node by the address that %s maps its address to', async (_what, natMap) => {
    const { cluster } = await openCluster(shard('b.invalid', 1), natMap);
    expect(cluster.masterOf('lock:a')?.address).toBe('10.0.0.9:1');
    await cluster.close();
  });

  it('keeps the masters that it knows while `natMap` fails for an address', async () => {
    let fails = false;
    const { cluster } = await openCluster(shard('b.invalid', 1), () => {
      if (fails) throw new Error('not in the table');
      return { host: '10.0.0.9', port: 1 };
    });
    fails = true;
    await new Promise<void>((resolve) => cluster.refreshSlots(resolve));
    expect([cluster.status, cluster.masterOf('lock:a')?.address]).toEqual(['ready', '10.0.0.9:1']);
    await cluster.close();
  });

  it('does not know the master of a slot that no node has reported', async () => {
    const { cluster } = await openCluster(shard('10.0.0.2', 7_001, [0, 1]));
    expect([cluster.masterAddressOf('lock:a'), cluster.masterOf('lock:a')]).toEqual([undefined, undefined]);
    await cluster.close();
  });

  /** A cluster whose named nodes a test answers for: each time that they are asked for, it gets a function that names them. */
  function clusterBySeeds() {
    const [clock, questions, sessions] = [
      new FakeClock(),
      [] as ((nodes: readonly ServerAddress[]) => void)[],
      [] as FakeSession[],
    ];
    const answer: Answering = ([command]) => (command === 'cluster' ? shard('10.0.0.2') : 'OK');
    const seeds = () => new Promise<readonly ServerAddress[]>((resolve) => void questions.push(resolve));
    const plan = { seeds, node: (at: ServerAddress) => planOfFake(at, answer, sessions) };
    return { cluster: new ClusterClient(plan, partsWith(clock)), clock, questions, sessions };
  }

  it('opens nothing when it is closed while DNS is asked for its nodes, and connects when it is opened again', async () => {
    const { cluster, clock, questions, sessions } = clusterBySeeds();
    const failed = rejection(cluster.connect());
    await cluster.close();
    await failed;
    const ready = cluster.connect();
    questions[0]!([AT]);
    await settled();
    expect([sessions, cluster.status]).toEqual([[], 'connecting']);
    questions[1]!([AT]);
    await ready;
    await cluster.close();
    expect([sessions.some((session) => session.isWritable), clock.timers]).toEqual([false, 0]);
  });

  it('opens nothing when it is closed while a question continues that began before its connection was lost', async () => {
    const { cluster, clock, questions, sessions } = clusterBySeeds();
    const ready = cluster.connect();
    questions[0]!([AT]);
    await ready;
    await settled();
    cluster.refreshSlots(() => undefined);
    cluster.reconnect();
    await clock.advance(100);
    await cluster.close();
    questions[1]!([AT]);
    await settled();
    expect([cluster.status, sessions.some((session) => session.isWritable), clock.timers]).toEqual(['ended', false, 0]);
  });

  it('asks the nodes that it knows while DNS stays silent', async () => {
    const { cluster, clock, questions } = clusterBySeeds();
    const ready = cluster.connect();
    questions[0]!([AT]);
    await ready;
    await settled();
    let isDone = false;
    cluster.refreshSlots(() => (isDone = true));
    await clock.advance(CONNECT_TIMEOUT_MS);
    expect([isDone, cluster.status]).toEqual([true, 'ready']);
    await cluster.close();
    expect(clock.timers).toBe(0);
  });

  it.each([null, 'OK', [1], [[0, 'x', []]], [[0, 99_999, ['h', 1]]], shard(7), shard('h', '1')])(
    'refuses an answer that is not a list of slots: %j',
    async (answer) => {
      const { cluster, errors } = await openCluster(answer);
      expect([cluster.status, errors[0]?.message]).toEqual([
        'closed',
        'the answer to CLUSTER SLOTS is not a list of slots (10.0.0.1:7000)',
      ]);
      await cluster.close();
    },
  );
});
