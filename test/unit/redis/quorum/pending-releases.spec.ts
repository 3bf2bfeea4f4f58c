import { type ReleaseRequest } from '../../../../lib/core/store/lock-store.js';
import { LockStoreError } from '../../../../lib/core/lock.errors.js';
import { PendingReleases } from '../../../../lib/redis/quorum/pending-releases.js';
import { settled } from '../../../../lib/testing/manual-clock.js';
import { FakeClock } from '../../../support/core/fake-clock.js';

const RELEASE: ReleaseRequest = { key: 'k', attempt: 'c.1', holdAtLeastMs: 0, leaseMs: 3_000 };

/** A node that fails for as long as the test says so. */
function setUp() {
  const clock = new FakeClock();
  const sent: [string, number][] = [];
  const node = { isAway: false, isFailing: false, ask: (send: (store: unknown) => unknown) => send({ release }) };
  const release = ({ key, attempt }: ReleaseRequest): Promise<void> => {
    sent.push([`${attempt} ${key}`, clock.now()]);
    return node.isFailing ? Promise.reject(new LockStoreError('down')) : Promise.resolve();
  };
  return { clock, sent, node, pending: new PendingReleases(node as never, clock) };
}

describe('releases that a node did not confirm', () => {
  it('are sent again until it does', async () => {
    const { clock, sent, node, pending } = setUp();
    const began = clock.now();
    node.isFailing = true;
    pending.add(RELEASE, 250);
    await clock.advance(249);
    expect(sent).toEqual([]);
    await clock.advance(251);
    node.isFailing = false;
    await clock.advance(10_000);
    expect(sent.map(([, at]) => at - began)).toEqual([250, 500, 750]);
    expect([pending.size, clock.timers]).toEqual([0, 0]);
  });

  it('are all sent when the node is back, and none while it is away', async () => {
    const { clock, sent, node, pending } = setUp();
    node.isAway = true;
    for (const attempt of ['c.1', 'c.2']) for (const key of ['a', 'b']) pending.add({ ...RELEASE, attempt, key }, 250);
    await clock.advance(1_000);
    expect([sent, pending.size, clock.timers]).toEqual([[], 4, 1]);
    node.isAway = false;
    await clock.advance(250);
    expect(sent.map(([what]) => what)).toEqual(['c.1 a', 'c.1 b', 'c.2 a', 'c.2 b']);
    expect([pending.size, clock.timers]).toEqual([0, 0]);
  });

  it('are sent to a node that is back, with at most a hundred pending at a time', async () => {
    const { clock, node, pending, sent } = setUp();
    let [open, most] = [0, 0];
    const answers: (() => void)[] = [];
    node.ask = () => {
      most = Math.max(most, (open += 1));
      return new Promise<void>((resolve) => answers.push(() => ((open -= 1), resolve())));
    };
    node.isAway = true;
    for (let i = 0; i < 1_000; i += 1) pending.add({ ...RELEASE, attempt: `c.${i}`, leaseMs: 600_000 }, 250);
    node.isAway = false;
    await clock.advance(250);
    expect([open, pending.size]).toEqual([100, 900]);
    for (let answered = 0; answered < 1_000; answered += 1) {
      answers[answered]!();
      await settled();
    }
    await clock.advance(250);
    expect([most, answers.length, pending.size, clock.timers, sent]).toEqual([100, 1_000, 0, 0, []]);
  });

  it('continue in the next round when the node does not answer, and keep their order', async () => {
    const { clock, node, pending, sent } = setUp();
    node.isFailing = true;
    for (let i = 0; i < 250; i += 1) pending.add({ ...RELEASE, attempt: `c.${i}`, leaseMs: 600_000 }, 250);
    await clock.advance(750);
    expect(sent.map(([what]) => what)).toEqual([...Array(250).keys(), ...Array(50).keys()].map((i) => `c.${i} k`));
    expect([pending.size, clock.timers]).toEqual([250, 1]);
  });

  it('are merged when the same one is added twice', async () => {
    const { clock, sent, pending } = setUp();
    for (let i = 0; i < 3; i += 1) pending.add(RELEASE, 250);
    expect([pending.size, clock.timers]).toEqual([1, 1]);
    await clock.advance(250);
    expect(sent).toHaveLength(1);
  });

  it.each(['isAway', 'isFailing'] as const)(
    'are dropped when the lease has ended while the node %s',
    async (trouble) => {
      const { clock, sent, node, pending } = setUp();
      node[trouble] = true;
      pending.add(RELEASE, 250);
      await clock.advance(2_999);
      expect(pending.size).toBe(1);
      await clock.advance(1);
      node[trouble] = false;
      const before = sent.length;
      await clock.advance(10_000);
      expect([sent.length - before, pending.size, clock.timers]).toEqual([0, 0, 0]);
    },
  );

  it('end when the node is closed, and none start after that', async () => {
    const { clock, sent, pending } = setUp();
    pending.add(RELEASE, 250);
    pending.close();
    pending.add(RELEASE, 250);
    await clock.advance(10_000);
    expect([sent, pending.size, clock.timers]).toEqual([[], 0, 0]);
  });

  it('do not start again when an answer comes after the node is closed', async () => {
    const { clock, sent, node, pending } = setUp();
    node.isFailing = true;
    pending.add(RELEASE, 250);
    clock.jump(250);
    clock.turn();
    pending.close();
    await settled();
    await clock.advance(10_000);
    expect([sent.length, pending.size, clock.timers]).toEqual([1, 0, 0]);
  });
});
