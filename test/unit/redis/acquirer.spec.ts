import { type AcquireReply } from '../../../lib/core/store/lock-store.js';
import { Acquirer } from '../../../lib/redis/acquirer.js';
import { type Pending } from '../../../lib/redis/batcher.js';
import { FakeClock, settled } from '../../support/core/fake-clock.js';
import { lockCalls, plainWriter } from '../../support/redis/lock-commands.js';
import { gate } from '../../support/waiting/gate.js';
import { outcomeOf } from '../../support/waiting/outcome.js';

type Parts = Acquirer['parts'];

/** `client`: what the connection has of one. Acquires that are sent are in `sent`. */
function setUp(client: { readonly isCluster: boolean }) {
  const sent: Pending[] = [];
  const commands = {
    isCluster: client.isCluster,
    epoch: 0,
    serverId: null,
    liveClient: () => client,
    refusal: () => null,
    send: (send: () => Promise<unknown>) => send(),
  };
  const batcher = { add: (acquire: Pending) => void sent.push(acquire) };
  const parts = { commands, batcher, calls: lockCalls, clock: new FakeClock(), replicas: null } as unknown as Parts;
  return { sent, acquirer: new Acquirer(parts) };
}

describe('an acquire', () => {
  it('names the time of the node that serves its lock, and no time while that is unknown', () => {
    const masterAddressOf = (lock: string) => ({ host: lock.includes('a') ? '10.0.0.1' : '10.0.0.2', port: 7_000 });
    const { sent, acquirer } = setUp({ isCluster: true, masterAddressOf } as { isCluster: boolean });
    for (const key of ['a', 'b']) void acquirer.acquire(plainWriter(key, `c.${key}`), 500, () => undefined);
    const times = () => sent.map(({ operation }) => acquirer.timesOf(operation).sentMicros);
    expect(times()).toEqual([0, 0]);
    sent[0]!.resolve(['granted', 'c.a', '5000', '30000', '', '', '7']);
    expect(times()).toEqual([5_000_000, 0]);
  });

  it('is withdrawn while the time of the server is awaited, and is not sent then', async () => {
    const answered = gate();
    const { sent, acquirer } = setUp({ isCluster: false, time: () => answered.opened.then(() => 5_000) } as {
      isCluster: boolean;
    });
    const outcome: { error?: any; value?: AcquireReply } = outcomeOf(
      acquirer.acquire(plainWriter('a', 'c.a'), 500, () => undefined),
    );
    await settled();
    expect(acquirer.withdraw('c.a')).toBe(true);
    answered.open();
    await settled();
    expect([sent, outcome.error]).toEqual([[], expect.objectContaining({ wasSent: false })]);
    expect(acquirer.withdraw('c.a')).toBe(false);
  });
});
