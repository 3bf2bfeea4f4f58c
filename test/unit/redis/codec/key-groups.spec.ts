import { LockKeyError } from '../../../../lib/core/lock.errors.js';
import { groupKeys } from '../../../../lib/redis/codec/redis-keys.js';
import { masterOf, slotOf } from '../../../../lib/redis/connection/cluster-slots.js';

const single: any = { isCluster: false, options: {} };
const cluster: any = { isCluster: true, options: {} };
const storageKey = (key: string): string => `lock:${key}`;

describe('the cluster slot of a key', () => {
  it.each([
    ['123456789', 12_739],
    ['foo', 12_182],
    ['', 0],
    ['{foo}bar', 12_182],
    ['a{foo}{bar}', 12_182],
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
    const tagged: any = { isCluster: true, options: { keyPrefix: '{app}' } };
    expect(groupKeys(['b', 'a'], storageKey, tagged)).toEqual([['a', 'b']]);
  });

  it('contain at most 16 different keys', () => {
    const keys = Array.from({ length: 16 }, (_, i) => `k${i}`);
    expect(groupKeys([...keys, 'k0'], storageKey, single)[0]).toHaveLength(16);
    expect(() => groupKeys([...keys, 'k16'], storageKey, single)).toThrow(LockKeyError);
    expect(() => groupKeys([...keys, 'k16'], storageKey, single)).toThrow('at most 16 keys in one acquisition, got 17');
  });
});

describe('the master of a key', () => {
  const [one, other] = [7_000, 7_001].map((port) => ({ options: { host: '127.0.0.1', port } }));
  const clusterOf = (address: string | undefined, natMap?: unknown): any => ({
    isCluster: true,
    options: { keyPrefix: 'app:', natMap },
    nodes: () => [one, other],
    slots: { [slotOf('app:lock:a')]: address && [address] },
  });

  it('is the first node of its slot', () => {
    expect(masterOf(clusterOf('127.0.0.1:7001'), 'lock:a')).toBe(other);
    expect(masterOf(clusterOf('127.0.0.1:7002'), 'lock:a')).toBeUndefined();
  });

  it.each([
    ['a table', { 'b.invalid:1': { host: '127.0.0.1', port: 7_001 } }],
    ['a function', (told: string) => (told === 'b.invalid:1' ? { host: '127.0.0.1', port: 7_001 } : null)],
  ])('is found by the address that %s maps the address of a node to', (_what, natMap) => {
    expect(masterOf(clusterOf('b.invalid:1', natMap), 'lock:a')).toBe(other);
    expect(masterOf(clusterOf('127.0.0.1:7000', natMap), 'lock:a')).toBe(one);
  });

  it('is unknown until a node has reported it', () => {
    expect(masterOf(clusterOf(undefined), 'lock:a')).toBeUndefined();
  });
});
