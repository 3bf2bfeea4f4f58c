import { ownRedis } from '../../support/redis/own-redis.js';
import { keysOf } from '../../support/apps/listed.js';
import { closeAll, startApp } from '../../support/apps/lock-app.js';

const HOSTILE = [
  'nul\0byte', 'nul', 'cr\r\nlf', 'cr', '{tag}', '{tag}x', '{', '}', '{}', 'a{b', '%', '%%', '%25', '%7B', '%7btag}', '*', '**',
  '?', '[a-z]', '[^a]', '\\', '\\*', 'a', 'b', '^', '-', ' ', '  ', '\t', '\u001b[2J', '"', "' OR '1", '`', 'é', 'e\u0301', '漢字',
  '😀', '👩‍👩‍👧', '\u{10ffff}', 'שלום', '\u202eevil', '\ufeff', '\ufffd', '\uffff', '__proto__', 'constructor', 'null', '0', 'lock:',
  'wake:', "') redis.call('FLUSHALL') --", 'hold:x', '../../etc', 'x'.repeat(1_024), 'é'.repeat(512), '😀'.repeat(256),
  '%'.repeat(341),
]; // prettier-ignore

describe('hostile keys', () => {
  afterEach(closeAll);

  it('are distinct locks, are listed as given, and touch nothing else', async () => {
    const { admin, url } = await ownRedis();
    const others = { lock: 'a', 'lock;': 'b', 'LOCK:*': 'c', '*': 'd', x: 'e', nul: 'f' };
    await admin.mset(others);
    const [a, b] = [await startApp({ connection: url }), await startApp({ connection: url })];
    const held = await Promise.all(HOSTILE.map((key) => a.locks.acquire(key, { waitMs: 0 })));
    const refused = await Promise.all(HOSTILE.map((key) => b.locks.tryAcquire(key)));
    expect(refused).toEqual(HOSTILE.map(() => null));
    expect(await keysOf(b)).toEqual(HOSTILE.toSorted());
    for (const key of HOSTILE) {
      const expected = HOSTILE.filter((other) => other.startsWith(key)).toSorted();
      expect({ key, listed: await keysOf(b, key) }).toEqual({ key, listed: expected });
    }
    const stored = await admin.keys('*');
    expect(stored.filter((key) => !key.startsWith('lock:')).toSorted()).toEqual(Object.keys(others).toSorted());
    expect(stored).toHaveLength(HOSTILE.length + Object.keys(others).length);
    for (const lock of held) await lock.release();
    expect(await keysOf(b)).toEqual([]);
    expect(await admin.mget(Object.keys(others))).toEqual(Object.values(others));
  });
});
