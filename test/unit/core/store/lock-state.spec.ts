import { listLocks, type LockState } from '../../../../lib/core/store/lock-state.js';
import { gate } from '../../../support/waiting/gate.js';

const held = (key: string): LockState => ({
  key,
  mode: 'write',
  holders: [],
  waiters: 0,
  queue: [],
  permits: null,
  fencingToken: 1,
});

describe('a list of locks', () => {
  it('reads several keys at a time, in their order, and passes over free ones', async () => {
    const asked: string[] = [];
    const all = gate();
    const inspect = async (key: string): Promise<LockState> => {
      if (asked.push(key) === 3) all.open();
      await all.opened;
      return { ...held(key), mode: key === 'b' ? 'free' : 'write' };
    };
    const found: string[] = [];
    for await (const { key } of listLocks(['a', 'b', 'c'], 10, inspect)) found.push(key);
    expect([asked, found]).toEqual([
      ['a', 'b', 'c'],
      ['a', 'c'],
    ]);
  });
});
