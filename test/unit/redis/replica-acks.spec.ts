import { systemRandomness } from '../../../lib/core/randomness.js';
import { SingleClient } from '../../../lib/redis/client/redis-client.js';
import { ReplicaAcks } from '../../../lib/redis/replica-acks.js';
import { createLockScripts, withHashes } from '../../../lib/redis/scripts/lock-scripts.js';
import { FakeClock, settled } from '../../support/core/fake-clock.js';
import { FakeReporter } from '../../support/core/fake-store.js';
import { type FakeSession, planOfFake } from '../../support/redis/fake-session.js';
import { rejection } from '../../support/waiting/rejection.js';

describe('the confirmation of a grant by replicas', () => {
  it('opens no connection once it is closed: a grant may be read after that', async () => {
    const [clock, reporter, sessions]: [FakeClock, FakeReporter, FakeSession[]] = [
      new FakeClock(),
      new FakeReporter(),
      [],
    ];
    const client = new SingleClient(
      planOfFake({ host: '10.0.0.1', port: 7_000 }, () => 'OK', sessions),
      { clock, random: systemRandomness, reporter },
    );
    const replicas = new ReplicaAcks(client, { minReplicas: 1, replicaTimeoutMs: 100, clock, reporter });
    await replicas.close();
    const { operate: script } = withHashes(createLockScripts());
    const error = await rejection(replicas.confirm({ script, operands: [1, 'lock:a'], key: 'a', timeoutMs: 100 }));
    await settled();
    expect(error).toMatchObject({ name: 'LockStoreError', key: 'a' });
    expect([sessions, clock.timers]).toEqual([[], 0]);
  });
});
