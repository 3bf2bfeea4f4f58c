import { FreshMap } from '../../../lib/core/fresh-map.js';

describe('a map whose entries come and go', () => {
  it('has what a plain map has after any number of copies, in the same order', () => {
    const [fresh, plain] = [new FreshMap<number, string>(), new Map<number, string>()];
    for (let i = 0; i < 1_000; i += 1) {
      fresh.set(i, `value ${i}`);
      plain.set(i, `value ${i}`);
      const old = (i * 7) % 1_000;
      if (i % 3 > 0) expect(fresh.delete(old)).toBe(plain.delete(old));
    }
    expect([...fresh.keys()]).toEqual([...plain.keys()]);
    expect([...fresh.values()]).toEqual([...plain.values()]);
    expect(fresh.size).toBe(plain.size);
    for (const key of [0, 500, 999, 1_000]) {
      expect([fresh.has(key), fresh.get(key)]).toEqual([plain.has(key), plain.get(key)]);
    }
  });

  it('keeps the place of a key that is set again', () => {
    const map = new FreshMap<string, number>();
    map.set('a', 1);
    map.set('b', 2);
    for (let i = 0; i < 200; i += 1) map.set('a', i);
    expect([...map.keys()]).toEqual(['a', 'b']);
    expect([map.get('a'), map.size]).toEqual([199, 2]);
  });
});
