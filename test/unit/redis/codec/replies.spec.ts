import { LockKeyError, LockStoreError } from '../../../../lib/core/lock.errors.js';
import { MAX_LEASE_MS } from '../../../../lib/core/lock.options.js';
import {
  checkSetPermitsReply,
  isListenedTo,
  isTooLate,
  readAcquireReply,
  readAdoptReply,
  readForceReleaseReply,
  readReleaseReply,
  readRenewReply,
  readWriteBackReply,
  serverMicrosIn,
  wholeNumber,
} from '../../../../lib/redis/codec/replies.js';

const [SEVERAL, ONE] = [{ keys: ['a', 'b', 'c'] }, { keys: ['k'] }];

const RENEWAL = { key: 'k' };

const read = (text: string, several = false) => readAcquireReply(several ? SEVERAL : ONE, text.split(' '));

describe('a reply of the acquire script', () => {
  it('describes a grant, with the token of each key, and the fire that was granted', () => {
    const grant = { outcome: 'granted', remainingMs: 900, serverTimeMs: 5 };
    expect(read('granted c.1 5 900 1  7')).toStrictEqual({ ...grant, fencingTokens: [7] });
    expect(read('granted c.1 5 900 1 60000 7')).toStrictEqual({ ...grant, fencingTokens: [7], fireMs: 60_000 });
    expect(read('granted c.1 5 900 1  7 8 9', true)).toStrictEqual({ ...grant, fencingTokens: [7, 8, 9] });
  });

  it('describes a busy lock, its holder, and the owner that writes', () => {
    const busy = {
      outcome: 'busy',
      retryMs: 30,
      ahead: 2,
      serverTimeMs: 5,
      lastToken: 77,
      isFull: false,
      permits: undefined,
    };
    const nobody = { ...busy, holder: undefined, owner: undefined };
    expect(read('busy c.1 5 30 2    77  ')).toStrictEqual(nobody);
    const reply = ['busy', 'c.1', '5', '30', '2', 'host:1 A.b', 'ann', '1', '77', '', ''];
    expect(readAcquireReply(ONE, reply)).toStrictEqual({ ...busy, holder: 'host:1 A.b', owner: 'ann' });
    expect(readAcquireReply(SEVERAL, reply)).toStrictEqual({ ...busy, holder: 'host:1 A.b', owner: 'ann' });
    expect(readAcquireReply(ONE, reply.with(9, '1'))).toMatchObject({ isFull: true });
    expect(readAcquireReply(ONE, reply.with(10, '3'))).toMatchObject({ permits: 3 });
    // A parked hold has no holder, and a hold without a record still has an owner.
    expect(readAcquireReply(ONE, reply.with(5, ''))).toMatchObject({ holder: undefined, owner: 'ann' });
  });

  it('is rejected when a token is not a safe integer', () => {
    expect(() => read('granted c.1 5 900 1  9007199254740993')).toThrow('is not a safe integer');
    expect(() => read('granted c.1 5 900 1  7 8 9007199254740993', true)).toThrow('is not a safe integer');
  });
});

describe('a refusal', () => {
  it.each([
    [['refused', 'c.1', '5', 'late', '5123'], true, 5_123],
    [['refused', 'c.1', '5', 'released'], false, 5_000],
  ])('%p is one of a late command: %p, and has the time of the server, in microseconds', (reply, isLate, micros) => {
    expect([isTooLate(reply), serverMicrosIn(reply)]).toEqual([isLate, micros]);
  });
});

describe('a refused acquire', () => {
  it.each<[readonly string[], object]>([
    [['claimed', 'c.7'], { reason: 'claimed', claimedBy: 'c.7' }],
    [['claimed', ''], { reason: 'claimed', claimedBy: undefined }],
    [['permits', '3'], { reason: 'permits', permits: 3 }],
  ])('has its reason: %j', (parts, refusal) => {
    expect(readAcquireReply(ONE, ['refused', 'c.1', '5', ...parts])).toStrictEqual({ outcome: 'refused', ...refusal });
  });
});

describe('a release that finds no hold', () => {
  it.each([
    ['unknown', 'again'],
    ['expired', 'again'],
    ['lost', 'lost'],
  ])('may be the second copy of one that has ended it: %s', (outcome, again) => {
    const outcomes = [false, true].map((isRepeated) =>
      readReleaseReply('k', [outcome, 'c.1', '5', '0', '7'], isRepeated),
    );
    expect(outcomes).toEqual([outcome, again].map((name) => ({ outcome: name, holds: 0, lastToken: 7 })));
  });
});

describe('a busy reply', () => {
  it.each([
    ['0', false],
    ['1', true],
    ['', true],
  ])('shows whether the server has the subscriber of this process (%j: %p)', (text, isListened) => {
    expect(isListenedTo(['busy', 'c.1', '5', '30', '2', '', '', text, '77'])).toBe(isListened);
  });
});

describe('a reply of a command that ends or continues a hold', () => {
  it.each([
    ['0', false],
    ['1', true],
  ])('shows whether an operator has revoked it (%s)', (text, revoked) => {
    const reply = ['lost', 'c.1', '5', '7', text];
    const lost = { outcome: 'lost', lastToken: 7, revoked };
    expect([readRenewReply(RENEWAL, reply), readAdoptReply('k', reply)]).toEqual([lost, lost]);
  });

  it.each([
    [['revoked', '', '5', '2'], true],
    [['revoked', '', '5', '0'], false],
    [['again', '', '5', '0'], true],
    [['again', '', '5', '1'], true],
  ])('shows whether a forced release has ended a hold: %j', (reply, hasEnded) => {
    expect(readForceReleaseReply('k', reply)).toBe(hasEnded);
  });
});

describe('a reply that none of our scripts can send', () => {
  it('may be one that a retry replaces, and is shown with the keys', () => {
    const text =
      'Redis sent a reply for the lock "a, b, c" that none of its scripts can send: "nil c.1". Check what answers at its address, ' +
      'and whether something else writes to its keys.';
    const expected = expect.objectContaining({ key: 'a, b, c', retryable: true, message: text });
    expect(() => read('nil c.1', true)).toThrow(expected);
  });

  it('is not an adoption', () => {
    expect(readAdoptReply('k', ['adopted', 'c.1', '5', '900'])).toEqual({ outcome: 'adopted', remainingMs: 900 });
    expect(() => readAdoptReply('k', ['adopted', 'c.1', '', '900'])).toThrow(LockStoreError);
  });

  it.each([
    'nil', 'OK c.1', 'granted', 'granted c.1 5', 'granted c.1 5 900 1 ', 'granted c.1 5 900 1  0', 'granted c.1 5 900 1  NaN',
    'granted c.1 5 900 1  -7', 'granted c.1 5 0 1  7', 'granted c.1 5 -900 1  7', 'granted c.1 5 1e300 1  7',
    'granted c.1 5 99999999999 1  7', 'granted c.1 now 900 1  7', 'granted c.1 5 900 1 noon 7', 'granted c.1 5 900 1  7 8', 'busy c.1 5',
    'busy c.1 5 x 2    77', 'busy c.1 5 30 2    ', 'refused c.1 5 unlucky ', 'refused c.1 5',
  ])('is not a grant: %j', (text) => {
    expect(() => read(text)).toThrow(LockStoreError);
  }); // prettier-ignore

  it.each(['granted c.1 5 900 1  7 8', 'granted c.1 5 900 1  7 8 9 10', 'granted c.1 5 900 1  7 8 x'])(
    'is not a grant of three keys: %j',
    (text) => {
      expect(() => read(text, true)).toThrow(LockStoreError);
    },
  );

  it('is not a loss, renewal, release or outcome of an operator', () => {
    for (const text of ['nil', 'renewed c.1 5 NaN', 'renewed c.1 5 -1', 'lost c.1 5 x 0', 'done c.1 5 0 7 ']) {
      const reply = text.split(' ');
      expect(() => readRenewReply(RENEWAL, reply)).toThrow(LockStoreError);
      expect(() => readReleaseReply('k', reply, false)).toThrow(LockStoreError);
      expect(() => readForceReleaseReply('k', reply)).toThrow(LockStoreError);
    }
    expect(() => readRenewReply(RENEWAL, ['lost', 'c.1', '5', '7', '2'])).toThrow(LockStoreError);
    expect(() => readWriteBackReply('k', ['nil', 'c.1'])).toThrow(LockStoreError);
    expect(() => checkSetPermitsReply('k', ['nil'])).toThrow(LockStoreError);
  });
});

/** A part of a reply, where a count, a lease or a token is expected. */
const holdsOf = (text = '') => readReleaseReply('k', ['released', 'c.1', '5', text, '7'], false).holds;
const leaseOf = (text = '') => readRenewReply(RENEWAL, ['renewed', 'c.1', '5', text]);
const tokenOf = (text: string) => readAcquireReply(ONE, ['granted', 'c.1', '5', '900', '1', '', text]);

const NO_NUMBERS = [undefined, '', ' 5', '+5', '-5', '5.0', '1e3', '0x10', 'NaN', '12345678901234567', '٣'];

describe('a part of a reply', () => {
  it('is a whole number that is safe', () => {
    expect(holdsOf('0')).toBe(0);
    expect(holdsOf('9007199254740991')).toBe(Number.MAX_SAFE_INTEGER);
    expect(() => holdsOf('9007199254740992')).toThrow(LockStoreError);
  });

  it.each(NO_NUMBERS)('is not a number: %j', (text) => {
    expect(wholeNumber(text)).toBeNaN();
    expect(() => holdsOf(text)).toThrow(LockStoreError);
    expect(() => leaseOf(text)).toThrow(LockStoreError);
  });

  it('is a lease of 1 ms to 30 days', () => {
    expect(leaseOf('1')).toMatchObject({ remainingMs: 1 });
    expect(leaseOf(String(MAX_LEASE_MS))).toMatchObject({ remainingMs: MAX_LEASE_MS });
    for (const text of ['0', String(MAX_LEASE_MS + 1)]) expect(() => leaseOf(text)).toThrow(LockStoreError);
  });

  it('is a fencing token, unless it is zero; of one that is too great, another error says that no retry helps', () => {
    expect(tokenOf('1')).toMatchObject({ fencingTokens: [1] });
    expect(tokenOf('9007199254740991')).toMatchObject({ fencingTokens: [Number.MAX_SAFE_INTEGER] });
    expect(() => tokenOf('0')).toThrow(LockStoreError);
    for (const text of ['9007199254740993', '9'.repeat(400)]) expect(() => tokenOf(text)).toThrow(LockKeyError);
  });

  it('is one of the expected words', () => {
    expect(readRenewReply(RENEWAL, ['lost', 'c.1', '5', '7', '0'])).toMatchObject({ outcome: 'lost' });
    for (const text of ['', 'Lost', 'lost ', 'constructor']) {
      expect(() => readRenewReply(RENEWAL, [text, 'c.1', '5', '7', '0'])).toThrow(LockStoreError);
    }
    expect(() => readRenewReply(RENEWAL, [])).toThrow(LockStoreError);
  });

  it('is shortened in the text of the error', () => {
    expect(() => readRenewReply(RENEWAL, ['x'.repeat(1_000_000)])).toThrow(/^.{1,500}$/s);
  });
});
