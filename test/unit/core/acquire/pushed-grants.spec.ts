import { type ResolvedLockOptions } from '../../../../lib/core/lock.options.js';
import { type AcquireReply } from '../../../../lib/core/store/lock-store.js';
import { settled } from '../../../support/core/fake-clock.js';
import { busy, granted } from '../../../support/core/fake-store.js';
import { startCall } from './start-calls.js';

type Started = ReturnType<typeof startCall>;
type Options = Partial<ResolvedLockOptions>;

/** A call that waits in the store. */
async function startWaiting(options: Options = {}, reply: Parameters<typeof busy>[0] = {}, keys = ['k']) {
  const started = startCall(options, { keys });
  await started.reply(busy({ serverTimeMs: 10_000, ...reply }));
  return started;
}

describe('a grant that is pushed', () => {
  it('is counted from the last command that got a busy reply', async () => {
    const { clock, outcome, wake, reply, push } = await startWaiting();
    clock.jump(900);
    wake({ kind: 'wake' });
    const sentAt = clock.now();
    clock.jump(50);
    await reply(busy());
    push(9, 2_000);
    await settled();
    expect(outcome.value!.deadline).toBe(sentAt + 1_978);
  });

  /** Each begins with a call that waits, unless it starts another one, and pushes a grant. */
  it.each<[string, () => Started | Promise<Started>, (started: Started) => unknown, number]>([
    ['before the first answer', startCall, ({ push }) => push(9, 500), 2],
    ['too late to be proven', startWaiting, ({ clock, push }) => (clock.jump(1_980), push(9, 2_000)), 2],
    [
      'late, so that half of its lease is not proven',
      () => startWaiting({ leaseMs: 200 }),
      ({ clock, push }) => (clock.jump(100), push(9, 200)),
      2,
    ],
    [
      'in a sleep of the machine',
      startWaiting,
      ({ clock, push }) => ((clock.wallOffsetMs += 20_000), push(9, 2_000)),
      2,
    ],
    ['for a lock that is not renewed', () => startWaiting({ renew: false }), ({ push }) => push(9, 500), 2],
    ['for a lock that must outlast a crash', () => startWaiting({ holdAtLeastMs: 5 }), ({ push }) => push(9, 2_000), 2],
    ['for one of several keys', () => startWaiting({}, {}, ['a', 'b']), ({ push }) => push(9, 2_000), 2],
    ['from another server', () => startWaiting({}, { server: 'one' }), ({ push }) => push(9, 2_000), 2],
    ['with a token that the last answer has seen', () => startWaiting({}, { lastToken: 9 }), ({ push }) => push(9), 2],
    ['with an earlier token', () => startWaiting({}, { lastToken: 9 }), ({ push }) => push(8), 2],
  ])('is requested, and not believed, when it comes %s', async (_what, start, push, asked) => {
    const started = await start();
    const { store, outcome, reply, attempts, givenBack } = started;
    push(started);
    if (store.acquires.length === 1) await reply(busy());
    await settled();
    expect([outcome, attempts().length, givenBack()]).toEqual([{}, asked, []]);
    await reply(granted(3_000, 10, 11));
    expect([outcome.value?.held, new Set(attempts()).size, givenBack()]).toEqual([true, 1, []]);
  });
});

describe('a grant that an operator revokes before its reply', () => {
  it.each<[string, string[], AcquireReply[]]>([
    ['is given back, since other nodes may still have it, and requested anew', ['k'], [granted(3_000, 1)]],
    ['is given back each time', ['k'], [granted(3_000, 1), granted(3_000, 2)]],
    ['is given back when its reply says released, too', ['k'], [{ outcome: 'refused', reason: 'released' }]],
    ['is one of several, which are all given back', ['a', 'b'], [granted(3_000, 1, 2)]],
  ])('%s', async (_what, keys, revoked) => {
    const { outcome, revoke, reply, attempts, givenBack } = startCall({}, { keys });
    for (const answer of revoked) {
      revoke();
      await reply(answer);
    }
    expect(outcome).toEqual({});
    await reply(granted(3_000, 8, 9));
    const gone = revoked.map((_, i) => i + 1);
    expect(outcome.value!.fencingTokens).toEqual([8, 9].slice(0, keys.length));
    expect([attempts(), givenBack()]).toEqual([[...gone, gone.length + 1], gone.flatMap((nr) => keys.map(() => nr))]);
  });

  it('is never kept, whichever of the two comes first', async () => {
    const seen = new Set<string>();
    for (let turns = 0; turns < 12; turns += 1) {
      const { store, outcome, revoke, sent } = startCall();
      store.acquires[0]!.reply(granted(3_000));
      for (let turn = 0; turn < turns; turn += 1) await Promise.resolve();
      revoke();
      await settled();
      seen.add(outcome.value ? `held, and ${outcome.value.lost?.reason}` : `asked ${sent()[0]} times`);
    }
    expect([...seen]).toEqual(['asked 2 times', 'held, and revoked']);
  });
});
