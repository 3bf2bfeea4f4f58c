import { systemRandomness } from '../../../lib/core/randomness.js';
import { type ClusterClient } from '../../../lib/redis/client/cluster.js';
import { lostError, type Operands, SingleClient } from '../../../lib/redis/client/redis-client.js';
import { type ServerAddress } from '../../../lib/redis/client/server-address.js';
import { ReplicaAcks } from '../../../lib/redis/replica-acks.js';
import { createLockScripts, withHashes } from '../../../lib/redis/scripts/lock-scripts.js';
import { WAIT_ROUND_TRIP_MS } from '../../../lib/redis/timing.js';
import { FakeClock, settled } from '../../support/core/fake-clock.js';
import { FakeReporter } from '../../support/core/fake-store.js';
import { type FakeSession, planOfFake } from '../../support/redis/fake-session.js';
import { gate } from '../../support/waiting/gate.js';
import { outcomeOf } from '../../support/waiting/outcome.js';
import { rejection } from '../../support/waiting/rejection.js';

const { operate: script } = withHashes(createLockScripts());
const call = { script, operands: [1, 'lock:a'], key: 'a', timeoutMs: 100 } as const;

/** One server, or a cluster whose client asks `10.0.0.1` first. */
function setUp(
  answer: (words: Operands, host: string) => unknown,
  durable?: 'aof',
  others: Partial<ClusterClient> = {},
) {
  const [clock, reporter, sessions]: [FakeClock, FakeReporter, FakeSession[]] = [
    new FakeClock(),
    new FakeReporter(),
    [],
  ];
  const parts = { clock, random: systemRandomness, reporter };
  const planOf = (at: ServerAddress) => planOfFake(at, (words) => answer(words, at.host), sessions);
  const options = { minReplicas: 1, replicaTimeoutMs: 100, durable, clock, reporter };
  const first = { host: '10.0.0.1', port: 7_000 };
  const cluster = {
    isCluster: true,
    masterAddressOf: () => first,
    reachedBy: (at: ServerAddress) => at,
    openNode: (at: ServerAddress) => SingleClient.opened({ ...planOf(at), endsForGood: true }, parts),
    ...others,
  };
  return {
    clock,
    sessions,
    single: new ReplicaAcks(new SingleClient(planOf(first), parts), options),
    cluster: new ReplicaAcks(cluster as unknown as ClusterClient, options),
    /** What each host was sent: the names of the commands. */
    sent: () =>
      sessions.map(({ peer, sent }) => [
        peer!.host,
        ...sent.map((line) => line.split(' ')[0]).filter((name) => name !== 'info'),
      ]),
  };
}

/** A server that grants each lock, and whose replicas have it at once. */
const granting = ([command]: Operands) => (command === 'wait' ? 1 : ['granted']);
const refusal = (text: string) => Object.assign(new Error(text), { name: 'ReplyError' });

describe('the confirmation of a grant by replicas', () => {
  it('opens no connection once it is closed: a grant may be read after that', async () => {
    const { clock, sessions, single } = setUp(() => 'OK');
    await single.close();
    const error = await rejection(single.confirm(call));
    await settled();
    expect(error).toMatchObject({ name: 'LockStoreError', key: 'a' });
    expect([sessions, clock.timers]).toEqual([[], 0]);
  });

  it('covers all grants that wait for it, and no command is sent before it comes', async () => {
    const wait = gate();
    const { single, sent } = setUp(([command]) => (command === 'wait' ? wait.opened.then(() => 1) : ['granted']));
    const first = single.confirm(call);
    await settled();
    const others = [single.confirm(call), single.confirm(call)];
    await settled();
    expect(sent()).toEqual([['10.0.0.1', 'evalsha', 'wait']]);
    wait.open();
    expect(await Promise.all([first, ...others])).toEqual([['granted'], ['granted'], ['granted']]);
    expect(sent()).toEqual([['10.0.0.1', 'evalsha', 'wait', 'evalsha', 'evalsha', 'wait']]);
    await single.close();
  });

  it('covers the grants only, when some locks are not granted', async () => {
    const replies: Record<string, unknown> = { a: refusal('OOM'), b: ['busy'], c: ['granted'], d: ['adopted'] };
    let replicas = 0;
    const { single, sent } = setUp(([command, , , key]) => (command === 'wait' ? replicas : replies[String(key)]));
    const confirmed = (...keys: string[]) =>
      Promise.all(
        keys.map((key) => single.confirm({ ...call, operands: [1, key], key }).catch(({ message }: Error) => message)),
      );
    // The first is sent at once, before the others are known.
    expect(await confirmed('b', 'a', 'b')).toEqual([['busy'], expect.stringContaining('OOM'), ['busy']]);
    expect(sent()).toEqual([['10.0.0.1', 'evalsha', 'evalsha', 'evalsha']]);
    const tooFew = (key: string) => expect.stringContaining(`Only 0 of 1 replicas confirmed the lock "${key}"`);
    expect(await confirmed('b', 'a', 'c', 'd')).toEqual([
      ['busy'],
      expect.stringContaining('OOM'),
      tooFew('c'),
      tooFew('d'),
    ]);
    replicas = 1;
    expect(await confirmed('b', 'c', 'd')).toEqual([['busy'], ['granted'], ['adopted']]);
    await single.close();
  });

  it.each([
    ['replicas', undefined, 'Replicas did not confirm the lock "a": ERR unknown command. It was given back.'],
    ['disks', 'aof', 'The disk did not confirm the lock "a": ERR unknown command. It was given back.'],
  ] as const)('fails for good when the server refuses to ask its %s', async (_which, durable, message) => {
    const answer = ([command]: Operands) =>
      /wait/i.test(String(command)) ? refusal('ERR unknown command') : ['granted'];
    const { single } = setUp(answer, durable);
    const error = await rejection(single.confirm(call));
    expect(error).toMatchObject({ name: 'LockStoreError', message, key: 'a', retryable: false });
    await single.close();
  });

  it('fails when the server does not answer within the time limit and a round trip', async () => {
    const { single, clock } = setUp(([command]) => (command === 'wait' ? new Promise(() => undefined) : ['granted']));
    const outcome = outcomeOf(single.confirm(call));
    await clock.advance(100 + WAIT_ROUND_TRIP_MS - 1);
    expect(outcome).toEqual({});
    await clock.advance(1);
    expect(outcome.error).toMatchObject({ message: expect.stringContaining('no answer within'), retryable: true });
    await single.close();
  });

  it('fails when the connection is lost meanwhile: a new one has no writes to wait for', async () => {
    const lost = gate();
    const { single, sessions, clock } = setUp(([command]) => {
      if (command !== 'wait') return ['granted'];
      return sessions.length === 1 ? lost.opened.then(() => lostError()) : 1;
    });
    const error = rejection(single.confirm(call));
    await settled();
    sessions[0]!.listener.onOver();
    lost.open();
    await clock.advance(1_000);
    expect(await error).toMatchObject({ message: expect.stringContaining('connection was lost'), key: 'a' });
    await single.close();
  });

  it('comes from the new master once Sentinel has named it', async () => {
    const { single, sessions, clock } = setUp(granting);
    await single.confirm(call);
    single.move(() => false);
    await clock.advance(1_000);
    expect(sessions.map(({ isWritable }) => isWritable)).toEqual([false, true]);
    await single.close();
    expect(sessions.map(({ isWritable }) => isWritable)).toEqual([false, false]);
  });

  it.each([
    ['has it', [1, 1], ['granted']],
    ['does not have it', [0, 1], 'The disk did not confirm the lock "a"'],
    ['has it, and no other disk has', [1, 0], 'Only 0 of 1 replicas confirmed the lock "a"'],
  ])('counts the disks of replicas only if the disk of the master %s', async (_what, disks, expected) => {
    const { single } = setUp(([command]) => (command === 'WAITAOF' ? disks : ['granted']), 'aof');
    const outcome = await single.confirm(call).catch(({ message }: Error) => message);
    await single.close();
    if (typeof expected === 'string') expect(outcome).toContain(expected);
    else expect(outcome).toEqual(expected);
  });

  describe('in a cluster', () => {
    it('uses one connection to a node, until the node has gone', async () => {
      const { cluster, sessions, sent } = setUp(granting);
      for (let i = 0; i < 2; i += 1) await cluster.confirm(call);
      expect(sent()).toEqual([['10.0.0.1', 'evalsha', 'wait', 'evalsha', 'wait']]);
      sessions[0]!.listener.onOver();
      expect(await cluster.confirm(call)).toEqual(['granted']);
      expect(sent()[1]).toEqual(['10.0.0.1', 'evalsha', 'wait']);
      await cluster.close();
    });

    it.each<[string, Partial<ClusterClient>]>([
      ['no node is known for the slot', { masterAddressOf: () => undefined }],
      ['no node has been discovered', { openNode: () => null }],
    ])('fails when %s yet', async (_when, others) => {
      const { cluster } = setUp(granting, undefined, others);
      const message = 'The master for the lock "a" is not known yet. Try again.';
      expect(await rejection(cluster.confirm(call))).toMatchObject({ name: 'LockStoreError', message, key: 'a' });
    });

    it.each([
      ['MOVED', ['evalsha', 'wait']],
      ['ASK', ['asking', 'evalsha', 'wait']],
    ])('comes from the node that %s names', async (kind, commands) => {
      const { cluster, sent } = setUp(([command], host) => {
        if (command === 'evalsha' && host === '10.0.0.1') return refusal(`${kind} 1 10.0.0.2:7000`);
        return command === 'wait' ? 1 : ['granted'];
      });
      expect(await cluster.confirm(call)).toEqual(['granted']);
      expect(sent()).toEqual([
        ['10.0.0.1', 'evalsha'],
        ['10.0.0.2', ...commands],
      ]);
      await cluster.close();
    });

    it.each([
      ['an error that names no node', 'OOM command not allowed', 1],
      ['the last of four nodes that name each other', 'MOVED 1 10.0.0.1:7000', 5],
    ])('fails with %s', async (_what, text, times) => {
      const { cluster, sent } = setUp(([command]) => (command === 'evalsha' ? refusal(text) : 'OK'));
      const error = await rejection(cluster.confirm(call));
      expect(error).toMatchObject({ name: 'LockStoreError', message: expect.stringContaining(text) });
      expect(sent()).toEqual([['10.0.0.1', ...Array.from({ length: times }, () => 'evalsha')]]);
      await cluster.close();
    });
  });
});
