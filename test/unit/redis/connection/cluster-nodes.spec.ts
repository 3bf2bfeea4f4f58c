import { systemRandomness } from '../../../../lib/core/randomness.js';
import { OwnCluster } from '../../../../lib/redis/client/cluster.js';
import { type ServerAddress } from '../../../../lib/redis/client/server-address.js';
import { ClusterNodes } from '../../../../lib/redis/connection/cluster-nodes.js';
import { FakeClock, settled } from '../../../support/core/fake-clock.js';
import { FakeReporter } from '../../../support/core/fake-store.js';
import { type Answering, type FakeSession, planOfFake } from '../../../support/redis/fake-session.js';

describe('the nodes of a cluster', () => {
  it('report a node that has left the cluster while it was down: what waits for it goes to another one', async () => {
    const clock = new FakeClock();
    let isDown = false;
    let shards = [
      [0, 8_191, ['10.0.0.1', 7_000]],
      [8_192, 16_383, ['10.0.0.2', 7_000]],
    ];
    const sessions: FakeSession[] = [];
    const node = (at: ServerAddress) => {
      const isGone = (): boolean => isDown && at.host === '10.0.0.2';
      const answer: Answering = ([command]) =>
        isGone() ? new Error('connect ECONNREFUSED') : command === 'cluster' ? shards : 'OK';
      return planOfFake(at, answer, sessions);
    };
    const seeds = async () => [{ host: '10.0.0.1', port: 7_000 }];
    const cluster = new OwnCluster({ seeds, node }, { clock, random: systemRandomness, reporter: new FakeReporter() });
    let changes = 0;
    const nodes = new ClusterNodes(clock, {
      inOurContext: (work) => work(),
      onChange: () => (changes += 1),
      onReady: () => undefined,
      onLoss: () => undefined,
    });
    const stop = nodes.watch(cluster);
    await cluster.connect();
    await settled();
    isDown = true;
    for (const session of sessions) if (session.peer?.host === '10.0.0.2') session.listener.onOver();
    await settled();
    shards = [[0, 16_383, ['10.0.0.1', 7_000]]];
    changes = 0;
    await new Promise<void>((resolve) => cluster.refreshSlots(resolve));
    expect([cluster.nodes('all').length, changes]).toEqual([1, 1]);
    stop();
    await cluster.close();
  });
});
