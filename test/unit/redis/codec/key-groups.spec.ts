import { LockKeyError } from '../../../../lib/core/lock.errors.js';
import { groupKeys } from '../../../../lib/redis/codec/redis-keys.js';
import { slotOf } from '../../../../lib/redis/client/cluster-slots.js';

const single = { isCluster: false, keyPrefix: '' } as const;
const cluster = { isCluster: true, keyPrefix: '' } as const;
const storageKey = (key: string): string => `lock:${key}`;

describe('the cluster slot of a key', () => {
  it.each([
    ['123456789', 12_739],
    ['foo', 12_182],
    ['', 0],
    ['{foo}bar', 12_182],
    ['a{foo}{bar}', 12_182],
    ['ключ', 10_303],
    ['{ключ}foo', 10_303],
    ['order 🔑 {', 6_919],
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

  it('follow a hash tag in the prefix, and the key prefix of ioredis', () => {
    expect(groupKeys(['b', 'a'], (key) => `{lock}:${key}`, cluster)).toEqual([['a', 'b']]);
    const tagged = { isCluster: true, keyPrefix: '{app}' } as const;
    expect(groupKeys(['b', 'a'], storageKey, tagged)).toEqual([['a', 'b']]);
  });

  it('contain at most 16 different keys', () => {
    const keys = Array.from({ length: 16 }, (_, i) => `k${i}`);
    expect(groupKeys([...keys, 'k0'], storageKey, single)[0]).toHaveLength(16);
    expect(() => groupKeys([...keys, 'k16'], storageKey, single)).toThrow(LockKeyError);
    expect(() => groupKeys([...keys, 'k16'], storageKey, single)).toThrow('at most 16 keys in one acquisition, got 17');
  });
});
