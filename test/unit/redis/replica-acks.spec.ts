import { systemRandomness } from '../../../lib/core/randomness.js';
import { type ClusterClient } from '../../../lib/redis/client/cluster.js';
import { type Operands, SingleClient } from '../../../lib/redis/client/redis-client.js';
import { type ServerAddress } from '../../../lib/redis/client/server-address.js';
import { ReplicaAcks } from '../../../lib/redis/replica-acks.js';
import { createLockScripts, withHashes } from '../../../lib/redis/scripts/lock-scripts.js';
import { FakeClock, settled } from '../../support/core/fake-clock.js';
import { FakeReporter } from '../../support/core/fake-store.js';
import { type FakeSession, planOfFake } from '../../support/redis/fake-session.js';
import { rejection } from '../../support/waiting/rejection.js';

const { operate: script } = withHashes(createLockScripts());
const call = { script, operands: [1, 'lock:a'], key: 'a', timeoutMs: 100 } as const;

/** One server, or a cluster whose client asks `10.0.0.1` first. */
function setUp(answer: (words: Operands, host: string) => unknown, durable?: 'aof') {
  const [clock, reporter, sessions]: [FakeClock, FakeReporter, FakeSession[]] = [
    new FakeClock(),
    new FakeReporter(),
    [],
  ];
  const parts = { clock, random: systemRandomness, reporter };
  const open = (at: ServerAddress) =>
    new SingleClient(
      planOfFake(at, (words) => answer(words, at.host), sessions),
      parts,
    );
  const options = { minReplicas: 1, replicaTimeoutMs: 100, durable, clock, reporter };
  const first = { host: '10.0.0.1', port: 7_000 };
  const cluster = {
    isCluster: true,
    masterAddressOf: () => first,
    reachedBy: (at: ServerAddress) => at,
    openNode: open,
  };
  return {
    clock,
    sessions,
    single: new ReplicaAcks(open(first), options),
    cluster: new ReplicaAcks(cluster as unknown as ClusterClient, options),
    /** What each host was sent: the names of the commands. */
    sent: () =>
      sessions.map(({ peer, sent }) => [
        peer!.host,
        ...sent.map((line) => line.split(' ')[0]).filter((name) => name !== 'info'),
      ]),
  };
}

describe('the confirmation of a grant by replicas', () => {
  it('opens no connection once it is closed: a grant may be read after that', async () => {
    const { clock, sessions, single } = setUp(() => 'OK');
    await single.close();
    const error = await rejection(single.confirm(call));
    await settled();
    expect(error).toMatchObject({ name: 'LockStoreError', key: 'a' });
    expect([sessions, clock.timers]).toEqual([[], 0]);
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
    const refusal = (text: string) => Object.assign(new Error(text), { name: 'ReplyError' });

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
