import { type Cluster, type Redis } from 'ioredis';
import { systemClock } from '../../../../lib/core/clock.js';
import { systemRandomness } from '../../../../lib/core/randomness.js';
import { IoredisClients, IoredisCluster } from '../../../../lib/redis/client/ioredis/ioredis.js';
import { slotOf } from '../../../../lib/redis/client/cluster-slots.js';
import { FakeReporter } from '../../../support/core/fake-store.js';

const clients = new IoredisClients({ clock: systemClock, random: systemRandomness, reporter: new FakeReporter() });

/** A client whose server answers each command with this. */
function answering(answer: unknown) {
  const command = async (): Promise<unknown> => answer;
  return clients.of({ options: {}, time: command, scan: command, wait: command } as unknown as Redis);
}

const NONSENSE = [null, undefined, '', 'OK', 7.5, Number.NaN, {}, [], [null], ['1'], ['1', '2', '3']];

describe('the answer to TIME', () => {
  it('is a time in microseconds', async () => {
    expect(await answering(['1700000000', '123456']).time()).toBe(1_700_000_000_123_456);
    expect(await answering([1_700_000_000, 5]).time()).toBe(1_700_000_000_000_005);
  });

  it.each([...NONSENSE, ['-1', '0'], ['x', '0'], ['1', ''], ['1', null], ['1e3', '0']])(
    'is refused: %j',
    async (answer) => {
      await expect(answering(answer).time()).rejects.toThrow('the answer to TIME is no time');
    },
  );
});

describe('the answer to SCAN', () => {
  it('is a cursor and keys', async () => {
    expect(await answering(['17', ['a', 'b']]).scan('0', '*', 100)).toEqual(['17', ['a', 'b']]);
    expect(await answering([0, []]).scan('0', '*', 100)).toEqual(['0', []]);
  });

  it.each([...NONSENSE, ['x', []], ['-1', []], ['1', 'a'], ['1', [null]], ['1', [['a']]], [['1'], null]])(
    'is refused: %j',
    async (answer) => {
      await expect(answering(answer).scan('0', '*', 100)).rejects.toThrow('the answer to SCAN has no cursor and keys');
    },
  );
});

describe('the answer to WAIT', () => {
  it('is a number of replicas', async () => {
    expect(await answering(2).wait(1, 10)).toBe(2);
  });

  it.each([null, undefined, '', '2', 'OK', [], [2], {}, Number.NaN, 1.5, -1])('is refused: %j', async (answer) => {
    await expect(answering(answer).wait(1, 10)).rejects.toThrow('the answer to WAIT is no number');
  });
});

describe('the master of a key', () => {
  const [one, other] = [7_000, 7_001].map((port) => ({ options: { host: '127.0.0.1', port } }));
  /** The port of the master of a key in a cluster that announces this address for it. */
  function masterPort(address: string | undefined, natMap?: unknown): number | undefined {
    const cluster = {
      isCluster: true,
      options: { natMap },
      nodes: () => [one, other],
      slots: { [slotOf('lock:a')]: address && [address] },
    };
    const client = new IoredisCluster(cluster as unknown as Cluster, clients);
    const master = client.masterOf('lock:a');
    return master && Number(master.address.split(':')[1]);
  }

  it('is the first node of its slot', () => {
    expect(masterPort('127.0.0.1:7001')).toBe(7_001);
    expect(masterPort('127.0.0.1:7002')).toBeUndefined();
  });

  it.each([
    ['a table', { 'b.invalid:1': { host: '127.0.0.1', port: 7_001 } }],
    ['a function', (told: string) => (told === 'b.invalid:1' ? { host: '127.0.0.1', port: 7_001 } : null)],
  ])('is found by the address that %s maps the address of a node to', (_what, natMap) => {
    expect(masterPort('b.invalid:1', natMap)).toBe(7_001);
    expect(masterPort('127.0.0.1:7000', natMap)).toBe(7_000);
  });

  it('is unknown until a node has reported it', () => {
    expect(masterPort(undefined)).toBeUndefined();
  });
});
