import { commandTimeoutMs } from '../../../../../lib/core/timing.js';
import { type RenewReply } from '../../../../../lib/core/store/lock-store.js';
import { settled } from '../../../../support/core/fake-clock.js';
import { gone } from '../../../../support/core/fake-store.js';
import { DEADLINE_MS, LEASE_MS, startWatchdog, THIRD_MS } from '../../../../support/core/start-watchdog.js';

const KEYS = ['a', 'b', 'c'];
const holdsOf = (attempt: string) => KEYS.map((key, i) => ({ key, attempt, fencingToken: 100 + i }));
const renewed = (remainingMs = LEASE_MS): RenewReply => ({ outcome: 'renewed', remainingMs });
const unknown = (cause = new Error('down')): RenewReply => ({ outcome: 'unknown', cause });

/** A watched lock of three keys whose first renewal was sent. */
async function renewing() {
  const started = startWatchdog();
  const lock = started.watched({ holds: holdsOf('client.1') });
  const { store, clock } = started;
  while (store.renews.length === 0) await clock.advance(1);
  const sentAt = clock.now();
  const reply = async (...replies: RenewReply[]) => {
    started.store.renews.at(-1)!.reply(replies);
    await settled();
  };
  return { ...started, lock, sentAt, reply };
}

describe('the watchdog and a lock of several keys', () => {
  it('renews every hold in one call, each with its own fencing token', async () => {
    const { store, lock } = await renewing();
    const timeoutMs = commandTimeoutMs(LEASE_MS);
    const wish = { mode: 'write', owner: undefined, holder: 'host:1', hold: lock };
    expect(store.renews.map(({ request }) => request)).toEqual([
      holdsOf('client.1').map((hold) => ({ ...hold, ...wish, leaseMs: LEASE_MS, timeoutMs })),
    ]);
  });

  it('is proven for the shortest of the leases', async () => {
    const { lock, sentAt, reply } = await renewing();
    await reply(renewed(), renewed(2_500), renewed(2_800));
    expect(lock.deadline).toBe(sentAt + 2_500 * 0.99 - 2);
  });

  it.each([
    ['first', [gone(999), renewed(), unknown()]],
    ['middle', [unknown(), gone(999), renewed()]],
    ['last', [renewed(), unknown(), gone(999)]],
  ])('loses the lock when the %s hold is gone, whatever the other replies', async (_which, replies) => {
    const { lock, watchdog, timers, reply } = await renewing();
    await reply(...replies);
    expect(lock.lost).toMatchObject({ reason: 'taken', key: 'a, b, c' });
    expect([watchdog.size, timers.size]).toEqual([0, 0]);
  });

  it.each([
    ['first', [unknown(), renewed(), renewed()]],
    ['middle', [renewed(), unknown(), renewed()]],
    ['last', [renewed(), renewed(), unknown()]],
  ])('treats the renewal as unanswered when that of the %s hold is, and renews all again', async (_which, replies) => {
    const { clock, store, lock, reporter, reply } = await renewing();
    const before = lock.deadline;
    await reply(...replies);
    expect([lock.lost, lock.deadline, reporter.lines.length]).toEqual([null, before, 1]);
    await clock.advance(200);
    expect(store.renews.map(({ request }) => request.length)).toEqual([3, 3]);
    await reply(renewed(), renewed(), renewed());
    expect(lock.deadline).toBeGreaterThan(before);
  });

  it('reports revoked when the store says so', async () => {
    const { lock, reply } = await renewing();
    await reply(renewed(), gone(999, true), renewed());
    expect(lock.lost).toMatchObject({ reason: 'revoked' });
  });

  it.each([
    ['expired', 101],
    ['taken', 102],
  ] as const)('reports %s when the last token of the second key is %d and ours is 101', async (reason, last) => {
    const { lock, reply } = await renewing();
    await reply(renewed(), gone(last), renewed());
    expect(lock.lost).toMatchObject({ reason });
  });

  it('extends every hold, and reports a revocation that it finds', async () => {
    const { store, watched, watchdog } = startWatchdog();
    const lock = watched({ holds: holdsOf('client.1') });
    store.onRenew = (requests) => requests.map((_, i) => (i === 2 ? gone(0, true) : renewed(60_000)));
    expect(await watchdog.extend(lock, 60_000)).toMatchObject({ outcome: 'lost' });
    expect(store.renews[0]!.request.map(({ leaseMs }) => leaseMs)).toEqual([60_000, 60_000, 60_000]);
    expect(lock.lost).toMatchObject({ reason: 'revoked' });
  });
});

describe('the watchdog and several locks', () => {
  it('gives each lock the replies for its own holds', async () => {
    const { clock, store, watched } = startWatchdog();
    const [one, two, three] = [
      watched({ key: 'x' }),
      watched({ holds: holdsOf('client.2'), attempt: 'client.2' }),
      watched({ key: 'y' }),
    ];
    await clock.advance(THIRD_MS);
    const order = store.renews[0]!.request.map(({ key }) => key);
    expect(order.toSorted()).toEqual(['a', 'b', 'c', 'x', 'y']);
    store.renews[0]!.reply(order.map((key) => (key === 'b' ? gone(0) : renewed())));
    await settled();
    expect([one, two, three].map(({ held }) => held)).toEqual([true, false, true]);
  });

  it('renews those with the same time-out together, so that a short lease does not wait for long ones', async () => {
    const { clock, store, watched } = startWatchdog();
    const long = ['l1', 'l2'].map((key) => watched({ key, leaseMs: 9_000 }));
    clock.jump(2_700);
    const next = watched({ key: 'next', leaseMs: 1_000 });
    clock.jump(400);
    clock.turn();
    await settled();
    expect(long.map(({ held }) => held)).toEqual([true, true]);
    const ofLease = (leaseMs: number) =>
      store.renews.filter(({ timeoutMs }) => timeoutMs === commandTimeoutMs(leaseMs));
    const keysOf = (leaseMs: number) => ofLease(leaseMs).map(({ request }) => request.map(({ key }) => key).toSorted());
    expect([keysOf(9_000), keysOf(1_000), store.renews.length]).toEqual([[['l1', 'l2']], [['next']], 2]);
    ofLease(1_000)[0]!.reply([renewed(1_000)]);
    await settled();
    expect(next.remainingMs).toBe(1_000 * 0.99 - 2);
  });
});

describe('the events of the watchdog', () => {
  it('are emitted for each renewal, and for each one without an answer', async () => {
    const { clock, store, events, watched } = startWatchdog();
    const seen: unknown[] = [];
    events.on('renewed', (event) => seen.push(event)).on('renewFailed', (event) => seen.push(event));
    watched({ label: { where: 'Orders.charge', template: 'k' } });
    await clock.advance(THIRD_MS);
    const cause = new Error('down');
    store.renews[0]!.reply([unknown(cause)]);
    await clock.advance(200);
    store.renews[1]!.reply([renewed(DEADLINE_MS)]);
    await settled();
    const common = { key: 'k', keys: ['k'], mode: 'write', attempt: 'client.1', fencingToken: 100 };
    const label = { where: 'Orders.charge', template: 'k' };
    expect(seen).toEqual([
      { ...common, ...label, cause },
      { ...common, ...label, remainingMs: DEADLINE_MS },
    ]);
  });
});
