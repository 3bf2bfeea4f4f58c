import { leaseFrom, moment } from '../../../../../lib/core/hold/lease.js';
import { commandTimeoutMs } from '../../../../../lib/core/timing.js';
import { settled } from '../../../../support/core/fake-clock.js';
import { gone } from '../../../../support/core/fake-store.js';
import { DEADLINE_MS, LEASE_MS, THIRD_MS, startWatchdog } from '../../../../support/core/start-watchdog.js';

describe('the watchdog, renewing', () => {
  it('renews at a third of the lease, again and again', async () => {
    const { clock, store, watched, renewing, reporter } = startWatchdog();
    renewing();
    const lock = watched();
    await clock.advance(THIRD_MS - 40);
    expect(store.renews).toHaveLength(0);
    await clock.advance(40);
    expect(store.renews).toHaveLength(1);
    const timeoutMs = commandTimeoutMs(LEASE_MS);
    const hold = { key: 'k', attempt: 'client.1', fencingToken: 100 };
    const wish = { mode: 'write', owner: undefined, holder: 'host:1', hold: lock };
    expect(store.renews[0]!.request).toEqual([{ ...hold, ...wish, leaseMs: LEASE_MS, timeoutMs }]);
    await clock.advance(60_000);
    expect(lock.held).toBe(true);
    expect(store.renews.length).toBeGreaterThan(58);
    expect(reporter.lines).toEqual([]);
  });

  it('renews with one command what is due in one turn', async () => {
    const { clock, store, watched, renewing } = startWatchdog();
    renewing();
    for (const key of ['a', 'b', 'c']) watched({ key });
    await clock.advance(THIRD_MS);
    expect(store.renews).toHaveLength(1);
    expect(store.renews[0]!.request.map(({ key }) => key).toSorted()).toEqual(['a', 'b', 'c']);
  });

  it('does not renew again while an answer is pending', async () => {
    const { clock, store, watched } = startWatchdog();
    watched();
    await clock.advance(THIRD_MS + 1_500);
    expect(store.renews).toHaveLength(1);
  });

  it('counts the new lease from before the command was sent', async () => {
    const { clock, store, watched } = startWatchdog();
    const lock = watched();
    clock.jump(THIRD_MS);
    clock.turn();
    await settled();
    const sentAt = clock.now();
    await clock.advance(700);
    store.renews[0]!.reply([{ outcome: 'renewed', remainingMs: LEASE_MS }]);
    await settled();
    expect(lock.deadline).toBe(sentAt + DEADLINE_MS);
  });

  it('renews a grant in time that was pushed long after its command', async () => {
    const { clock, store, watched, renewing } = startWatchdog();
    renewing();
    // A request, a busy reply, then a short grant by a message: its `sent` is that of the old command.
    const sent = moment(clock);
    clock.jump(3_000);
    const lock = watched({ sent, lease: leaseFrom(moment(clock), 500), leaseMs: LEASE_MS });
    await clock.advance(600);
    expect(lock.lost).toBeNull();
    expect(store.renews).toHaveLength(1);
  });

  it('leaves time for another attempt before the proven lease ends', async () => {
    const { clock, store, watched } = startWatchdog();
    // A long lease, of which little is proven: it was handed over.
    const lock = watched({ leaseMs: 30_000, lease: leaseFrom(moment(clock), 6_000), sent: moment(clock) });
    await clock.advance(2_000);
    const { timeoutMs } = store.renews[0]!.request[0]!;
    expect(clock.now() + 2 * timeoutMs).toBeLessThanOrEqual(lock.deadline);
    expect(timeoutMs).toBeGreaterThan(1_500);
  });

  it('renews at a third of the lease that both clocks prove', async () => {
    const { clock, store, watched, renewing } = startWatchdog();
    renewing();
    const sent = moment(clock);
    watched({ sent, lease: { ...leaseFrom(sent, LEASE_MS), wallDeadline: sent.wallAt + 600 } });
    await clock.advance(200);
    expect(store.renews).toHaveLength(1);
  });

  it('renews a longer proof at a third of it, and requests the lease of the lock', async () => {
    const { clock, store, watched } = startWatchdog();
    const sent = moment(clock);
    const endsAt = clock.now() + 9_000;
    // As with `holdAtLeastMs`: granted for longer than the lease, which a renewal does not shorten.
    store.onRenew = (requests) =>
      requests.map(({ leaseMs }) => ({
        outcome: 'renewed',
        remainingMs: Math.max(endsAt - clock.now(), leaseMs),
      }));
    const lock = watched({ sent, lease: leaseFrom(sent, 9_000) });
    await clock.advance(2_900);
    expect(store.renews).toHaveLength(0);
    await clock.advance(100);
    expect(store.renews.map(({ request }) => request[0]!.leaseMs)).toEqual([LEASE_MS]);
    await clock.advance(1_900);
    expect(store.renews).toHaveLength(1);
    await clock.advance(60_000);
    expect(lock.lost).toBeNull();
  });

  it('renews again when a gap in the messages came during a renewal, since a loss may have been missed', async () => {
    const { clock, store, watched, watchdog, renewing } = startWatchdog();
    renewing();
    const sent = moment(clock);
    clock.jump(10);
    watchdog.renewAll();
    watched({ sent, lease: leaseFrom(sent, LEASE_MS) });
    watched({ key: 'short', sent, lease: leaseFrom(sent, LEASE_MS), renew: false });
    await clock.advance(1);
    expect(store.renews.map(({ request }) => request.map(({ key }) => key))).toEqual([['k']]);
  });

  it('never renews with renew: false, and the lock ends with its lease', async () => {
    const { clock, store, watched, reporter } = startWatchdog();
    const lock = watched({ renew: false });
    await clock.advance(DEADLINE_MS - 1);
    expect(lock.held).toBe(true);
    await clock.advance(2);
    expect(store.renews).toHaveLength(0);
    expect(lock.lost).toMatchObject({ reason: 'expired' });
    expect(reporter.lines[0]).toMatch(/^error The lock "k" .* was lost/);
  });

  it('holds no timer and no lock after unwatch', async () => {
    const { clock, store, watched, watchdog, timers } = startWatchdog();
    const lock = watched();
    expect([...watchdog.locks]).toEqual([lock]);
    watchdog.unwatch(lock);
    expect([watchdog.size, timers.size]).toEqual([0, 0]);
    await clock.advance(60_000);
    expect(store.renews).toHaveLength(0);
  });
});

describe('the watchdog and the wall clock', () => {
  it('makes held false after a jump of the wall clock until a renewal confirms the lock', async () => {
    const { clock, watched, renewing } = startWatchdog();
    renewing();
    const lock = watched();
    clock.wallOffsetMs += 3_600_000;
    expect([lock.held, lock.remainingMs]).toEqual([false, 0]);
    await clock.advance(THIRD_MS);
    expect([lock.held, lock.lost, lock.signal.aborted]).toEqual([true, null, false]);
  });
});

describe('an extension by the watchdog', () => {
  it('requests the given lease at once, and keeps renewing with it', async () => {
    const { clock, store, watched, watchdog, renewing } = startWatchdog();
    renewing(60_000);
    const lock = watched({ renew: false });
    expect(await watchdog.extend(lock, 60_000)).toEqual({ outcome: 'renewed', remainingMs: 60_000 });
    expect(store.renews[0]!.request[0]).toMatchObject({ leaseMs: 60_000 });
    await clock.advance(59_000);
    expect(lock.held).toBe(true);
    await clock.advance(1_000);
    expect(lock.lost).toMatchObject({ reason: 'expired' });
  });

  it.each([
    ['after a grant for a short time', 300],
    ['by less than what is left', 1],
  ])('%s is followed by a renewal before it ends', async (_what, leaseMs) => {
    const { clock, store, watched, watchdog } = startWatchdog();
    const sent = moment(clock);
    const lock = watched({ sent, lease: leaseFrom(sent, 600) });
    // The server never shortens: 600 from the grant.
    store.onRenew = () => [{ outcome: 'renewed', remainingMs: 550 }];
    clock.jump(50);
    await watchdog.extend(lock, leaseMs);
    expect(lock.deadline).toBeLessThan(sent.at + 600);
    store.onRenew = (requests) => requests.map((request) => ({ outcome: 'renewed', remainingMs: request.leaseMs }));
    await clock.advance(60_000);
    expect([lock.lost, store.renews[1]!.request[0]!.leaseMs]).toEqual([null, LEASE_MS]);
  });

  it('is followed by a renewal before the remaining lease ends, after an outage', async () => {
    const { clock, store, watched, watchdog } = startWatchdog();
    const endsAt = clock.now() + LEASE_MS;
    const lock = watched();
    store.onRenew = (requests) => requests.map(() => ({ outcome: 'unknown', cause: new Error('down') }));
    await clock.advance(2_700);
    store.onRenew = (requests) =>
      requests.map(({ leaseMs }) => ({ outcome: 'renewed', remainingMs: Math.max(endsAt - clock.now(), leaseMs) }));
    await watchdog.extend(lock, 100);
    await clock.advance(60_000);
    expect(lock.lost).toBeNull();
  });

  it('is followed by a renewal at a third of it, when it is longer than the lease', async () => {
    const { clock, store, watched, watchdog } = startWatchdog();
    const endsAt = clock.now() + 30_000;
    store.onRenew = (requests) =>
      requests.map(({ leaseMs }) => ({ outcome: 'renewed', remainingMs: Math.max(endsAt - clock.now(), leaseMs) }));
    const lock = watched();
    await watchdog.extend(lock, 30_000);
    await clock.advance(9_800);
    expect(store.renews).toHaveLength(1);
    await clock.advance(200);
    expect(store.renews).toHaveLength(2);
    await clock.advance(120_000);
    expect(lock.lost).toBeNull();
  });

  it('reports the loss that it finds', async () => {
    const { store, watched, watchdog } = startWatchdog();
    const lock = watched();
    store.onRenew = () => [gone(101)];
    await watchdog.extend(lock, 60_000);
    expect(lock.lost).toMatchObject({ reason: 'taken' });
  });
});
