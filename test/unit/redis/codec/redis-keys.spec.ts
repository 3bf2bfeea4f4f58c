import * as fc from 'fast-check';
import { LockKeyError } from '../../../../lib/core/lock.errors.js';
import { slotOf } from '../../../../lib/redis/client/cluster-slots.js';
import { RedisKeys, groupKeys } from '../../../../lib/redis/codec/redis-keys.js';

const keys = new RedisKeys('lock:');

const KEY = fc
  .oneof(
    fc.string({ unit: 'grapheme', minLength: 1, maxLength: 40 }),
    fc.string({ unit: fc.constantFrom('%', '{', '}', '2', '5', '7', 'B', 'b', 'D', ':'), minLength: 1, maxLength: 20 }),
  )
  .filter((key) => !/\p{Surrogate}/u.test(key));

describe('a storage key', () => {
  it.each([
    ['order:17', 'lock:order:17'],
    ['{a}', 'lock:%7Ba%7D'],
    ['%7Ba%7D', 'lock:%257Ba%257D'],
    ['100%', 'lock:100%25'],
    ['ключ 🔑', 'lock:ключ 🔑'],
    ['a\r\nb\0', 'lock:a\r\nb\0'],
  ])('of %p is %p', (key, storageKey) => {
    expect(keys.storageKey(key)).toBe(storageKey);
    expect(keys.keyOf(storageKey)).toBe(key);
  });

  it('is unique for each key, and can be decoded', () => {
    fc.assert(
      fc.property(KEY, KEY, (a, b) => {
        expect(keys.storageKey(a) === keys.storageKey(b)).toBe(a === b);
        expect(keys.keyOf(keys.storageKey(a))).toBe(a);
      }),
    );
  });

  it('never has a hash tag', () => {
    fc.assert(fc.property(KEY, (key) => expect(keys.storageKey(key)).not.toMatch(/[{}]/)));
  });

  it('may have up to 1,024 bytes after encoding, without the prefix', () => {
    for (const key of ['a'.repeat(1_024), 'é'.repeat(512), '🔑'.repeat(256), `${'%'.repeat(341)}a`]) {
      expect(() => keys.check(key)).not.toThrow();
      expect(keys.storageKey(key)).toMatch(/^lock:/);
      expect(() => keys.check(`${key}a`)).toThrow(LockKeyError);
      expect(() => keys.check(`${key}a`)).toThrow('at most 1024 bytes, got 1025');
    }
  });

  it.each([
    ['', 'got an empty one'],
    [undefined, 'got undefined'],
    [null, 'got object'],
    [5, 'got number'],
    [['a'], 'got object'],
    ['half \ud83d', 'half of a surrogate pair'],
    ['\udd11 half', 'half of a surrogate pair'],
  ])('of %p is refused', (key: any, expected) => {
    expect(() => keys.check(key)).toThrow(LockKeyError);
    expect(() => keys.check(key)).toThrow(expected);
  });
});

describe('a pattern for SCAN', () => {
  it('escapes every character, and ends with the only asterisk', () => {
    expect(keys.pattern('')).toBe('lock:*');
    expect(keys.pattern('order:')).toBe('lock:order:*');
    expect(keys.pattern('a*b?c[d]e^f\\g-h{i}')).toBe('lock:a\\*b\\?c\\[d\\]e\\^f\\\\g\\-h%7Bi%7D*');
    expect(new RedisKeys('a*:').pattern('b')).toBe('a\\*:b*');
  });
});

const single = { isCluster: false } as const;
const cluster = { isCluster: true } as const;
const storageKey = (key: string): string => `lock:${key}`;

describe('the cluster slot of a key', () => {
  it.each([
    ['foo', 12_182],
    ['{foo}bar', 12_182],
    ['a{foo}{bar}', 12_182],
    ['ключ', 10_303],
    ['{ключ}foo', 10_303],
    ['{}foo', slotOf('{}foo')],
  ])('%p is in slot %d', (key, slot) => {
    expect(slotOf(key)).toBe(slot);
  });

  it('is computed from the whole key when the hash tag is empty or unclosed', () => {
    expect(slotOf('{}a{b}')).not.toBe(slotOf('b'));
    expect(slotOf('{a')).not.toBe(slotOf('a'));
  });
});

describe('the groups of keys', () => {
  it('are one group on a single Redis: sorted by bytes, each key once', () => {
    expect(groupKeys(['b', 'a', 'b', '\u{1f511}', '￿'], storageKey, single)).toEqual([['a', 'b', '￿', '\u{1f511}']]);
  });

  it('are one group per slot on a cluster, in the order of the slots', () => {
    const keys = ['a', 'b', 'c', 'd'];
    const groups = groupKeys(keys, storageKey, cluster);
    const slots = groups.map(([key]) => slotOf(storageKey(key!)));
    expect(slots).toEqual([...slots].sort((a, b) => a - b));
    expect(groups.flat().sort()).toEqual(keys);
    expect(groupKeys(keys.toReversed(), storageKey, cluster)).toEqual(groups);
  });

  it('follow a hash tag in the prefix', () => {
    expect(groupKeys(['b', 'a'], (key) => `{lock}:${key}`, cluster)).toEqual([['a', 'b']]);
  });

  it('contain at most 16 different keys', () => {
    const keys = Array.from({ length: 16 }, (_, i) => `k${i}`);
    expect(groupKeys([...keys, 'k0'], storageKey, single)[0]).toHaveLength(16);
    expect(() => groupKeys([...keys, 'k16'], storageKey, single)).toThrow(LockKeyError);
    expect(() => groupKeys([...keys, 'k16'], storageKey, single)).toThrow(
      /at most 16 keys in one acquisition, got 17\. .* nest calls in the byte order/,
    );
  });
});
