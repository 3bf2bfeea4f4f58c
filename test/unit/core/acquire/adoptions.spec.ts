import { type TransferredHold } from '../../../../lib/core/hold/transfer-text.js';
import {
  LockConfigurationError,
  LockKeyError,
  LockLostError,
  LockShutdownError,
  LockStoreError,
} from '../../../../lib/core/lock.errors.js';
import { NOTHING, startLocker, transferred } from '../../../support/core/core-parts.js';
import { settled } from '../../../support/core/fake-clock.js';
import { gone } from '../../../support/core/fake-store.js';
import { rejection } from '../../../support/waiting/rejection.js';

const LEASE_MS = 3_000;
const HOLD = transferred({
  keyPrefix: '',
  holds: [{ key: 'k', attempt: 'other.00000001', fencingToken: 100, unanswered: false }],
  leaseMs: LEASE_MS,
});
const three = (...keys: string[]): Partial<TransferredHold> => ({
  holds: keys.map((key, i) => ({ key, attempt: `other.0000000${i}`, fencingToken: 100 + i, unanswered: false })),
});

function setUp() {
  const started = startLocker();
  const { locker } = started;
  const adopt = (change: Partial<TransferredHold> = {}) => locker.adopt({ ...HOLD, ...change, awaitRelease: true });
  return { ...started, adopt };
}

describe('a hold that is adopted', () => {
  it('continues with the same token, as an attempt of this process', async () => {
    const { store, locker, adopt } = setUp();
    const lock = await adopt({ handedOn: 3 });
    const [{ request, timeoutMs }] = store.adoptions as [(typeof store.adoptions)[number]];
    expect(request).toEqual({
      key: 'k',
      attempt: expect.stringMatching(/^client\.[\w-]{8}$/),
      from: 'other.00000001',
      fencingToken: 100,
      leaseMs: LEASE_MS,
      holder: 'host:1',
      unanswered: false,
    });
    expect(timeoutMs).toBe(LEASE_MS / 4);
    expect(lock).toMatchObject({ key: 'k', mode: 'write', fencingToken: 103, held: true, attempt: request.attempt });
    expect(locker.live.locks).toBe(1);
  });

  it.each<[string, Partial<TransferredHold>, number]>([
    ['max-hold', { owner: 'ann', mode: 'read', grantedMode: 'read', maxHoldMs: 5_000 }, 5_000],
    ['expired', { renew: false }, LEASE_MS],
  ])('keeps its owner, its mode and its limits: it ends as %s', async (reason, change, ms) => {
    const { clock, store, adopt } = setUp();
    const lock = await adopt(change);
    expect([lock.owner, lock.mode]).toEqual([change.owner ?? lock.attempt, change.mode ?? 'write']);
    await clock.advance(ms);
    expect([lock.lost?.reason, store.renews.length > 0]).toEqual([reason, change.renew !== false]);
  });

  it('that was downgraded continues as a reader, and has the tokens that it used up', async () => {
    const { clock, store, adopt } = setUp();
    const [first, second] = [await adopt({ mode: 'read' }), await adopt({ mode: 'read' })];
    expect(first.mode).toBe('read');
    store.onRenew = (requests) => requests.map(({ attempt }) => gone(attempt === first.attempt ? 163 : 164));
    await clock.advance(LEASE_MS);
    expect([first.lost?.reason, second.lost?.reason]).toEqual(['expired', 'taken']);
  });

  it('emits `adopted` with the attempt that had it', async () => {
    const { locker, adopt } = setUp();
    const seen: unknown[] = [];
    locker.events.on('adopted', (event) => seen.push(event));
    const { attempt } = await adopt();
    const lock = { key: 'k', keys: ['k'], mode: 'write', where: '', template: undefined };
    expect(seen).toEqual([{ ...lock, fencingToken: 100, attempt, from: 'other.00000001' }]);
  });

  it('of several keys is one hold, in the order of its keys; the first key decides', async () => {
    const { store, adopt } = setUp();
    store.onAdopt = null;
    const adopting = adopt(three('b', 'a', 'c'));
    await settled();
    expect(store.adoptions.map(({ request }) => request.key)).toEqual(['b']);
    store.adoptions[0]!.reply({ outcome: 'adopted', remainingMs: LEASE_MS });
    await settled();
    expect(store.adoptions.map(({ request }) => [request.key, request.from])).toEqual([
      ['b', 'other.00000000'],
      ['a', 'other.00000001'],
      ['c', 'other.00000002'],
    ]);
    for (const asked of store.adoptions.slice(1)) asked.reply({ outcome: 'adopted', remainingMs: LEASE_MS / 2 });
    const lock = await adopting;
    expect([lock.keys, lock.fencingTokens]).toEqual([
      ['b', 'a', 'c'],
      [100, 101, 102],
    ]);
    expect(lock.remainingMs).toBeLessThanOrEqual(LEASE_MS / 2);
    expect(new Set(store.adoptions.map(({ request }) => request.attempt)).size).toBe(1);
  });
});

describe('a shutdown that a listener of `adopted` begins', () => {
  it('gives the new holder its time', async () => {
    const { clock, store, locker, adopt } = setUp();
    const closed: Promise<void>[] = [];
    locker.events.on('adopted', () => void closed.push(locker.close(1_000)));
    const lock = await adopt();
    await clock.advance(900);
    expect([lock.held, store.givenBack]).toEqual([true, []]);
    await lock.release();
    await closed[0];
    expect([store.givenBack, locker.live]).toEqual([['k'], NOTHING]);
  });
});

describe('a hold that cannot be adopted', () => {
  it('is one of another prefix, of a bad key, or of a module that shuts down: nothing is sent', async () => {
    const { store, locker, adopt } = setUp();
    const error = await rejection(adopt({ keyPrefix: 'other:' }));
    expect(error).toBeInstanceOf(LockConfigurationError);
    expect(error.message).toContain('with the `keyPrefix` "other:", and this one has ""');
    expect(await rejection(adopt(three('a', '')))).toBeInstanceOf(LockKeyError);
    await locker.close(0);
    expect(await rejection(adopt())).toBeInstanceOf(LockShutdownError);
    expect(store.adoptions).toEqual([]);
  });

  it('is given back when one of its keys is gone', async () => {
    const { store, adopt } = setUp();
    store.onAdopt = ({ key }) => (key === 'a' ? gone(999) : { outcome: 'adopted', remainingMs: LEASE_MS });
    const error = (await rejection(adopt(three('b', 'a', 'c')))) as LockLostError;
    expect([error.reason, error.key]).toEqual(['taken', 'b, a, c']);
    await settled();
    expect(store.givenBack.toSorted()).toEqual(['b', 'c']);
    expect(store.releases.map(({ request }) => request.attempt)).toEqual(
      store.releases.map(() => store.adoptions[0]!.request.attempt),
    );
  });

  it('is given back when its command had no answer and may still come', async () => {
    const { store, adopt } = setUp();
    const failure = new LockStoreError('no answer');
    store.onAdopt = () => {
      throw failure;
    };
    expect(await rejection(adopt())).toBe(failure);
    await settled();
    const { attempt } = store.adoptions[0]!.request;
    expect(store.releases.map(({ request }) => request)).toMatchObject([{ key: 'k', attempt, unanswered: true }]);
  });

  it.each([
    ['first', 0],
    ['last', 1],
  ])('is given back when the module closes before the answer for its %s key, which comes later', async (_what, nth) => {
    const { store, locker, adopt } = setUp();
    store.onAdopt = null;
    const adopting = rejection(adopt(three('a', 'b')));
    await settled();
    for (const { reply } of store.adoptions.slice(0, nth)) reply({ outcome: 'adopted', remainingMs: LEASE_MS });
    await settled();
    const closing = locker.close(0);
    expect(await adopting).toBeInstanceOf(LockShutdownError);
    store.adoptions.at(-1)!.reply({ outcome: 'adopted', remainingMs: LEASE_MS });
    await closing;
    await settled();
    const { attempt } = store.adoptions[0]!.request;
    const released = ['a', 'b'].map((key) => ({ key, attempt, unanswered: true }));
    expect(store.releases.map(({ request }) => request)).toMatchObject(released);
    expect([store.adoptions.length, locker.live]).toEqual([nth + 1, NOTHING]);
  });

  it('is left alone when nothing was sent', async () => {
    const { store, adopt } = setUp();
    store.onAdopt = () => {
      throw new LockStoreError('no connection', { wasSent: false });
    };
    await rejection(adopt());
    await settled();
    expect(store.releases).toEqual([]);
  });

  it('is given back when the answer comes after the end of its lease', async () => {
    const { clock, store, adopt } = setUp();
    store.onAdopt = null;
    const adopting = rejection(adopt());
    await settled();
    await clock.advance(LEASE_MS);
    store.adoptions[0]!.reply({ outcome: 'adopted', remainingMs: LEASE_MS });
    expect(await adopting).toMatchObject({ code: 'LOCK_LOST', reason: 'expired' });
    expect(store.givenBack).toEqual(['k']);
  });
});
