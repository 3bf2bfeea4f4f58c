import { LockShutdownError } from '../../../../../lib/core/lock.errors.js';
import { startLocker } from '../../../../support/core/core-parts.js';
import { settled } from '../../../../support/core/fake-clock.js';
import { busy, granted } from '../../../../support/core/fake-store.js';
import { startAcquisition } from '../../../../support/core/start-acquisition.js';

describe('a grant that is pushed', () => {
  it('is counted pessimistically: it ends on our clock before it ends on the server', async () => {
    const { clock, store, outcome, push } = startAcquisition();
    const sentAt = clock.now();
    clock.jump(200);
    store.acquires[0]!.reply(busy());
    await settled();
    clock.jump(400);
    push(9, 10_500, 2_000);
    await settled();
    // It was granted some time after `sent`: on the server it ends 2_000 after that, less the drift and the rounding.
    expect(outcome.grant).toMatchObject({ holds: [{ fencingToken: 9 }], attempt: 'client.1' });
    expect(outcome.grant!.lease.deadline).toBe(sentAt + 2_000 * 0.99 - 2);
    expect(store.acquires).toHaveLength(1);
  });

  it.each([
    ['ahead', 3_600_000],
    ['behind', 0],
  ])('is counted the same when the server clock is %s', async (_what, serverTimeMs) => {
    const { clock, store, outcome, push } = startAcquisition();
    const sentAt = clock.now();
    store.acquires[0]!.reply(busy({ serverTimeMs: 10_000 }));
    await settled();
    clock.jump(900);
    push(9, serverTimeMs, 2_000);
    await settled();
    expect(outcome.grant!.lease.deadline).toBe(sentAt + 1_978);
  });

  it('is counted from the last command that got a busy reply', async () => {
    const { clock, store, outcome, acquisition, push } = startAcquisition();
    store.acquires[0]!.reply(busy());
    await settled();
    clock.jump(900);
    acquisition.onWakeUp({ kind: 'wake' });
    const sentAt = clock.now();
    clock.jump(50);
    store.acquires[1]!.reply(busy());
    await settled();
    push(9, 10_000, 2_000);
    await settled();
    expect(outcome.grant!.lease.deadline).toBe(sentAt + 1_978);
  });

  it.each([
    ['with the last token that a later answer has seen', 8],
    ['with an earlier token', 7],
  ])('%s has ended: it is requested, and not counted from that answer', async (_what, token) => {
    const { clock, store, outcome, acquisition, push } = startAcquisition();
    store.acquires[0]!.reply(busy({ lastToken: 6 }));
    await settled();
    clock.jump(900);
    acquisition.onWakeUp({ kind: 'wake' });
    store.acquires[1]!.reply(busy({ lastToken: 8 }));
    await settled();
    push(token, 10_000, 2_000);
    await settled();
    expect([outcome.grant, store.acquires.length]).toEqual([undefined, 3]);
  });

  it('is requested again when it is too old to be proven', async () => {
    const { clock, store, abandoned, outcome, push } = startAcquisition();
    store.acquires[0]!.reply(busy({ serverTimeMs: 10_000 }));
    await settled();
    clock.jump(1_980);
    push(9, 10_500, 2_000);
    await settled();
    expect([outcome.grant, abandoned]).toEqual([undefined, []]);
    expect(store.acquires).toHaveLength(2);
  });

  it.each([
    ['counts when half of its lease is proven', 90, 1],
    ['is requested when less is proven: that may be over before the first renewal is answered', 100, 2],
  ])('%s', async (_what, ageMs, commands) => {
    const { clock, store, abandoned, outcome, push } = startAcquisition({ leaseMs: 200 });
    store.acquires[0]!.reply(busy());
    await settled();
    clock.jump(ageMs);
    push(9, 10_000, 200);
    await settled();
    expect([store.acquires.length, outcome.grant !== undefined]).toEqual([commands, commands === 1]);
    store.acquires[1]?.reply(granted(200, 9));
    await settled();
    expect(outcome.grant).toMatchObject({ attempt: 'client.1', holds: [{ fencingToken: 9 }] });
    expect(abandoned).toEqual([]);
  });

  it('is requested when it came while the machine slept: another caller may hold the lock by now', async () => {
    const { clock, store, abandoned, outcome, push } = startAcquisition();
    store.acquires[0]!.reply(busy({ serverTimeMs: 10_000 }));
    await settled();
    clock.wallOffsetMs += 20_000;
    push(9, 10_500, 2_000);
    await settled();
    expect([outcome.grant, abandoned, store.acquires.length]).toEqual([undefined, [], 2]);
  });

  it('is requested with renew: false, which makes the lease full', async () => {
    const { store, outcome, push } = startAcquisition({ renew: false });
    store.acquires[0]!.reply(busy({ serverTimeMs: 10_000 }));
    await settled();
    push(9, 10_000, 500);
    await settled();
    expect([outcome.grant, store.acquires.length]).toEqual([undefined, 2]);
  });

  it('is requested when it comes before the first answer', async () => {
    const { store, outcome, push } = startAcquisition();
    push(9, 10_000, 500);
    store.acquires[0]!.reply(busy());
    await settled();
    expect([outcome.grant, store.acquires.length]).toEqual([undefined, 2]);
  });

  it('wins while an answer is pending, and the answer that repeats it is not given back', async () => {
    const { clock, store, abandoned, acquisition, outcome, push } = startAcquisition();
    store.acquires[0]!.reply(busy({ serverTimeMs: clock.now() }));
    await settled();
    acquisition.onWakeUp({ kind: 'wake' });
    push(9, clock.now(), 2_000);
    store.acquires[1]!.reply(granted(3_000, 9));
    await settled();
    expect([outcome.grant?.holds[0]!.fencingToken, abandoned]).toEqual([9, []]);
  });
});

describe('a grant that an operator revokes', () => {
  it('is given back before its reply, since other nodes may still have it, and requested anew', async () => {
    const { store, attempts, abandoned, acquisition, outcome } = startAcquisition();
    acquisition.onWakeUp({ kind: 'revoked' });
    store.acquires[0]!.reply(granted(3_000, 1));
    await settled();
    expect([outcome.grant, attempts]).toEqual([undefined, ['client.1', 'client.2']]);
    store.acquires[1]!.reply(granted(3_000, 2));
    await settled();
    expect(outcome.grant).toMatchObject({ attempt: 'client.2', holds: [{ fencingToken: 2 }] });
    expect(abandoned).toEqual(['client.1']);
  });

  it('is given back once, and the next attempt is not revoked', async () => {
    const { store, attempts, abandoned, acquisition, outcome } = startAcquisition();
    for (let i = 0; i < 2; i += 1) {
      acquisition.onWakeUp({ kind: 'revoked' });
      store.acquires[i]!.reply(granted(3_000, i + 1));
      await settled();
    }
    expect([outcome.grant, abandoned]).toEqual([undefined, ['client.1', 'client.2']]);
    store.acquires[2]!.reply(granted(3_000, 3));
    await settled();
    expect(outcome.grant).toMatchObject({ attempt: 'client.3', holds: [{ fencingToken: 3 }] });
    expect(attempts).toEqual(['client.1', 'client.2', 'client.3', null]);
  });

  it('is given back when its reply says released, too', async () => {
    const { store, abandoned, acquisition, outcome } = startAcquisition();
    acquisition.onWakeUp({ kind: 'revoked' });
    store.acquires[0]!.reply({ outcome: 'refused', reason: 'released' });
    await settled();
    expect([abandoned, store.acquires[1]!.request.attempt]).toEqual([['client.1'], 'client.2']);
    store.acquires[1]!.reply(granted(3_000, 2));
    await settled();
    expect(outcome.grant?.attempt).toBe('client.2');
  });

  it('is one of several, which are given back before they are requested anew', async () => {
    const { store, abandoned, acquisition, outcome } = startAcquisition({}, { keys: ['a', 'b'] });
    acquisition.onWakeUp({ kind: 'revoked' });
    store.acquires[0]!.reply(granted(3_000, 1, 2));
    await settled();
    expect([abandoned, store.acquires[1]!.request.attempt]).toEqual([['client.1'], 'client.2']);
    store.acquires[1]!.reply(granted(3_000, 3, 4));
    await settled();
    expect(outcome.grant!.holds.map(({ fencingToken }) => fencingToken)).toEqual([3, 4]);
  });

  it('is lost when the revocation arrives together with the grant', async () => {
    const { store, enter } = startLocker();
    store.onAcquire = () => busy();
    const entering = enter('k');
    await settled();
    const { attempt } = store.acquires[0]!.request;
    store.listener!.onWakeUp(attempt, { kind: 'granted', fencingToken: 7, remainingMs: 3_000, serverTimeMs: 0 });
    store.listener!.onWakeUp(attempt, { kind: 'revoked' });
    expect((await entering).signal.reason).toMatchObject({ reason: 'revoked' });
  });
});

describe('an acquisition that is cancelled', () => {
  it('rejects with the reason of the signal at once, and gives its attempt back', async () => {
    const controller = new AbortController();
    const { store, timers, abandoned, outcome } = startAcquisition({ signal: controller.signal });
    const reason = new Error('the user went away');
    controller.abort(reason);
    await settled();
    expect([outcome.error, abandoned, timers.size]).toEqual([reason, ['client.1'], 0]);
    store.acquires[0]!.reply(granted(3_000));
    await settled();
    expect(abandoned).toEqual(['client.1', 'client.1']);
    expect(outcome.grant).toBeUndefined();
  });

  it('rejects once, whatever abort, limit, wake-up or shutdown follows', async () => {
    const controller = new AbortController();
    const { clock, store, abandoned, acquisition, outcome, push } = startAcquisition({ signal: controller.signal });
    store.acquires[0]!.reply(granted(3_000));
    await settled();
    controller.abort();
    acquisition.cancel(new LockShutdownError('closing'));
    push(99, 0, 1_000);
    await clock.advance(60_000);
    expect([outcome.error, outcome.grant?.holds[0]!.fencingToken, abandoned]).toEqual([undefined, 1, []]);
    expect(store.acquires).toHaveLength(1);
  });

  it('gives its attempt back while its command is in flight, even with waitMs 0', async () => {
    const { acquisition, abandoned, outcome } = startAcquisition({ waitMs: 0 });
    const error = new LockShutdownError('closing');
    acquisition.cancel(error);
    await settled();
    expect([outcome.error, abandoned]).toEqual([error, ['client.1']]);
  });
});
