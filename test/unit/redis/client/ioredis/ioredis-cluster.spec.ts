import { type Cluster } from 'ioredis';
import { systemClock } from '../../../../../lib/core/clock.js';
import { systemRandomness } from '../../../../../lib/core/randomness.js';
import { slotOf } from '../../../../../lib/redis/client/cluster-slots.js';
import { IoredisClients } from '../../../../../lib/redis/client/ioredis/ioredis-clients.js';
import { type ClusterClient } from '../../../../../lib/redis/client/redis-client.js';
import { FakeReporter } from '../../../../support/core/fake-store.js';

const clients = new IoredisClients({ clock: systemClock, random: systemRandomness, reporter: new FakeReporter() });

describe('the master of a key', () => {
  const [one, other] = [7_000, 7_001].map((port) => ({ options: { host: '127.0.0.1', port } }));
  /** The port of the master of a key in a cluster that announces this address for it. */
  function masterPort(address: string | undefined, natMap?: unknown): number | undefined {
    const cluster = {
      isCluster: true,
      options: { keyPrefix: 'app:', natMap },
      nodes: () => [one, other],
      slots: { [slotOf('app:lock:a')]: address && [address] },
    };
    const client = clients.of(cluster as unknown as Cluster) as ClusterClient;
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
