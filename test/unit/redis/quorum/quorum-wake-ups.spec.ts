import { type WakeUp, type WakeUpListener } from '../../../../lib/core/store/lock-store.js';
import { QuorumWakeUps } from '../../../../lib/redis/quorum/quorum-wake-ups.js';
import { FakeClock } from '../../../support/core/fake-clock.js';
import { type QuorumNode } from '../../../../lib/redis/quorum/quorum-node.js';

const WAKE: WakeUp = { kind: 'wake' };
const GRANTED: WakeUp = { kind: 'granted', fencingToken: 7, remainingMs: 3_000, serverTimeMs: 1_000 };
const REVOKED: WakeUp = { kind: 'revoked' };

function listen(count: number) {
  const listeners: WakeUpListener[] = [];
  const nodes = Array.from({ length: count }, (_, i) => {
    const listen = (listener: WakeUpListener): void => void (listeners[i] = listener);
    return { store: { listen } } as unknown as QuorumNode;
  });
  const clock = new FakeClock();
  const told: string[] = [];
  const wakeUps = new QuorumWakeUps(clock, nodes, {
    onWakeUp: (attempt, { kind }) => void told.push(`${kind} ${attempt}`),
    onListening: () => void told.push('listening'),
    onMessagesMissed: () => void told.push('gap'),
  });
  for (const node of nodes) wakeUps.listenTo(node);
  /** The node of that number, from 1, sends a notice. */
  const tell = (node: number, wakeUp: WakeUp = WAKE, attempt = 'c.1'): void =>
    listeners[node - 1]!.onWakeUp(attempt, wakeUp);
  const gap = (node: number): void => listeners[node - 1]!.onMessagesMissed();
  return { clock, told, wakeUps, tell, gap };
}

describe('a waiter in a quorum', () => {
  it.each([
    [1, 1],
    [2, 2],
    [3, 2],
    [4, 3],
    [5, 3],
  ])('of %d nodes is woken once, and at once, when %d of them woke it', async (count, majority) => {
    const { told, tell, clock } = listen(count);
    for (let node = 1; node < majority; node++) tell(node);
    expect(told).toEqual([]);
    tell(majority);
    expect(told).toEqual(['wake c.1']);
    await clock.advance(10);
    expect([told, clock.timers]).toEqual([['wake c.1'], 0]);
  });

  it('is woken 10 ms after the first node when the others are silent', async () => {
    const { told, tell, clock } = listen(5);
    tell(2);
    await clock.advance(6);
    tell(4);
    await clock.advance(3.9);
    expect(told).toEqual([]);
    await clock.advance(0.1);
    expect(told).toEqual(['wake c.1']);
    await clock.advance(1_000);
    expect(told).toEqual(['wake c.1']);
  });

  it('is woken by a second message of one node, which is about another release', async () => {
    const { told, tell, clock } = listen(3);
    tell(1);
    expect(told).toEqual([]);
    tell(1);
    expect(told).toEqual(['wake c.1']);
    await clock.advance(5);
    tell(1);
    expect(told).toEqual(['wake c.1', 'wake c.1']);
    // The last of them is pending, for 10 ms from its own begin.
    await clock.advance(9.9);
    expect([told.length, clock.timers]).toEqual([2, 1]);
    await clock.advance(0.1);
    expect([told.length, clock.timers]).toEqual([3, 0]);
  });

  it('is woken, and must send a request, when a node granted it the lock', () => {
    const { told, tell } = listen(3);
    tell(1, GRANTED);
    tell(3, WAKE);
    tell(2, GRANTED);
    expect(told).toEqual(['wake c.1']);
  });

  it('is woken again by the next release', async () => {
    const { told, tell, clock } = listen(3);
    for (const node of [1, 2]) tell(node);
    await clock.advance(1_000);
    tell(2);
    expect(told).toEqual(['wake c.1']);
    tell(3);
    expect(told).toEqual(['wake c.1', 'wake c.1']);
  });
});

describe('a quorum passes on', () => {
  it('each gap of any node', () => {
    const { told, gap } = listen(3);
    for (const node of [3, 1]) gap(node);
    expect(told).toEqual(['gap', 'gap']);
  });

  it('nothing after it is closed', async () => {
    const { told, tell, clock, wakeUps } = listen(3);
    tell(1, WAKE, 'c.2');
    wakeUps.close();
    for (const wakeUp of [WAKE, GRANTED, REVOKED]) tell(1, wakeUp);
    expect(clock.timers).toBe(0);
    await clock.advance(1_000);
    expect(told).toEqual([]);
  });

  it('a revocation while a wake-up is pending, and also the wake-up', async () => {
    const { told, tell, clock } = listen(3);
    tell(1);
    tell(1, REVOKED);
    expect(told).toEqual(['revoked c.1']);
    await clock.advance(10);
    expect(told).toEqual(['revoked c.1', 'wake c.1']);
  });
});
