import { LockKeyError, LockStoreError } from '../../../../lib/core/lock.errors.js';
import { MAX_LEASE_MS } from '../../../../lib/core/lock.options.js';
import { ReplyParts, wholeNumber } from '../../../../lib/redis/codec/reply-parts.js';

const only = (text: string | undefined) => new ReplyParts('k', text === undefined ? [] : [text]);

const NO_NUMBERS = [
  undefined,
  '',
  ' ',
  ' 5',
  '5 ',
  '+5',
  '-5',
  '5.0',
  '1e3',
  '0x10',
  'NaN',
  'Infinity',
  '12345678901234567',
  '٣',
];

describe('a part of a reply', () => {
  it('is a whole number within its range', () => {
    expect(only('0').whole(0)).toBe(0);
    expect(only('9007199254740991').whole(0)).toBe(Number.MAX_SAFE_INTEGER);
    expect(only('5').whole(0, 5, 5)).toBe(5);
    for (const text of ['4', '6', '9007199254740992']) expect(() => only(text).whole(0, 5, 5)).toThrow(LockStoreError);
    expect(() => only('9007199254740992').whole(0)).toThrow(LockStoreError);
  });

  it.each(NO_NUMBERS)('is no number: %j', (text) => {
    expect(wholeNumber(text)).toBeNaN();
    expect(() => only(text).whole(0)).toThrow(LockStoreError);
    expect(() => only(text).lease(0)).toThrow(LockStoreError);
  });

  it('is a lease of 1 ms to 30 days', () => {
    expect(only('1').lease(0)).toBe(1);
    expect(only(String(MAX_LEASE_MS)).lease(0)).toBe(MAX_LEASE_MS);
    for (const text of ['0', String(MAX_LEASE_MS + 1)]) expect(() => only(text).lease(0)).toThrow(LockStoreError);
  });

  it('is a fencing token, unless it is zero; of one that is too great, another error says that no retry helps', () => {
    expect(only('1').token(0)).toBe(1);
    expect(() => only('0').token(0)).toThrow(LockStoreError);
    for (const text of ['9007199254740993', '9'.repeat(400)]) expect(() => only(text).token(0)).toThrow(LockKeyError);
  });

  it('is one of some words', () => {
    expect(only('lost').oneOf(0, ['renewed', 'lost'])).toBe('lost');
    for (const text of [undefined, '', 'Lost', 'lost ', 'constructor']) {
      expect(() => only(text).oneOf(0, ['renewed', 'lost'])).toThrow(LockStoreError);
    }
  });

  it('is shortened in the text of the error', () => {
    expect(() => only('x'.repeat(1_000_000)).refuse()).toThrow(/^.{1,500}$/s);
  });
});
