import { ACQUIRE } from '../../lib/redis/scripts/acquire.js';
import { createLockScripts } from '../../lib/redis/scripts/lock-scripts.js';
import { type LuaScript, arg, key, lua } from '../../lib/redis/scripts/lua.js';
import { scriptPart } from '../../lib/redis/scripts/parts/script-part.js';
import { RELEASE } from '../../lib/redis/scripts/release.js';
import { RENEW } from '../../lib/redis/scripts/renew.js';

describe('the operands of a script', () => {
  it('may be empty or zero, but not missing', () => {
    const script = lua`return ${key('k')} .. ${arg('a')}`;
    expect(script.operands({ k: '', a: 0 })).toEqual([1, '', 0]);
    expect(() => script.operands({ k: 'key' } as never)).toThrow('script operand "a", got undefined');
    expect(() => script.operands({ a: 'value' } as never)).toThrow('script operand "k", got undefined');
  });
});

describe('the parts of a script', () => {
  it('use no variable that none of the parts they need defines', () => {
    const state = scriptPart({ name: 'state', needs: [], defines: 'now' }, lua`local now = 1`);
    const holds = scriptPart({ name: 'holds', needs: [state], reads: 'now' }, lua`f(now)`);
    const queue = { name: 'queue', needs: [holds] } as const;
    expect(() => scriptPart({ ...queue, reads: 'now', writes: 'now' }, lua`now = now`)).not.toThrow();
    expect(() => scriptPart({ ...queue, reads: 'now head' }, lua`f(now, head)`)).toThrow(
      'The script part "queue" uses "head": add the part that defines it to "needs".',
    );
    expect(() => scriptPart({ ...queue, writes: 'token' }, lua`token = 1`)).toThrow('uses "token"');
  });
});

describe('every lock script', () => {
  const scripts: [string, LuaScript<string, string, any>][] = Object.entries(createLockScripts());
  // A batch has functions with keys and arguments of their own.
  const withoutBatch = scripts.filter(([name]) => name !== 'batch');
  const keyOf = (name: string): string => (name.endsWith('History') ? 'history' : 'lock');

  it.each(withoutBatch)('%s declares one key, the lock or the history, and no other', (name, script) => {
    expect(script.keys).toEqual([keyOf(name)]);
    expect(new Set(script.text.match(/KEYS\[[^\]]*\]/g))).toEqual(new Set(['KEYS[1]']));
  });

  it.each(withoutBatch)('%s uses each argument that it takes, by a literal number', (name, script) => {
    // All but those that become arguments (FOLD), and the entries of the history behind those with names.
    const text = script.text.replaceAll(/ARGV\[position( \+ [123])?\]/g, '');
    expect(new Set(text.match(/ARGV\[[^\]]*\]/g))).toEqual(new Set(script.args.map((_name, i) => `ARGV[${i + 1}]`)));
    const named = text.match(/ARGV|KEYS/g)!.length - text.match(/(ARGV|KEYS)\[\d+\]/g)!.length;
    // Of several keys: a loop over KEYS, a comment, and the one key that is KEYS inside.
    expect(named).toBe(name === 'acquireMany' ? 3 : 0);
  });

  it.each([ACQUIRE, RELEASE, RENEW])('batch contains $kind, with its own arguments first', ({ own, body }) => {
    expect(body.args.slice(0, own.length)).toEqual(own);
    expect(createLockScripts().batch.text).toContain(`(KEYS, ARGV)\n${body.text}\nend`);
  });

  it.each(scripts)('%s reads the time once, if it needs it', (name, script) => {
    expect(script.text.match(/'TIME'/g) ?? []).toHaveLength(name === 'readHistory' ? 0 : 1);
  });
});
