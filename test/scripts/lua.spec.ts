import { createHash } from 'node:crypto';
import { ACQUIRE } from '../../lib/redis/scripts/acquire.js';
import { createLockScripts } from '../../lib/redis/scripts/lock-scripts.js';
import { FOLD, type LuaScript, arg, key, lua, overManyKeys } from '../../lib/redis/scripts/lua.js';
import { RELEASE } from '../../lib/redis/scripts/release.js';
import { RENEW } from '../../lib/redis/scripts/renew.js';

describe('the lua tag', () => {
  it('numbers keys and arguments in the order in which they are first named', () => {
    const script = lua`return { ${arg('b')}, ${key('k')}, ${arg('a')}, ${arg('b')} }`;
    expect(script.text).toBe('return { ARGV[1], KEYS[1], ARGV[2], ARGV[1] }');
    expect(script.operands({ k: 'key', a: 1, b: 'two' })).toEqual([1, 'key', 'two', 1]);
  });

  it('shares names between a script and the scripts inside it, at any depth', () => {
    const inner = lua`local x = ${arg('x')} .. ${key('lock')}`;
    const middle = lua`local y = ${arg('y')}; ${inner}`;
    const outer = lua`local z = ${arg('x')} .. ${key('lock')}; ${middle}; ${inner}`;
    expect(outer.text).toBe(
      'local z = ARGV[1] .. KEYS[1]; local y = ARGV[2]; local x = ARGV[1] .. KEYS[1]; local x = ARGV[1] .. KEYS[1]',
    );
    expect(outer.operands({ lock: 'l', x: 'X', y: 'Y' })).toEqual([1, 'l', 'X', 'Y']);
    expect(inner.text).toBe('local x = ARGV[1] .. KEYS[1]');
  });

  it('passes a list of keys, and counts them', () => {
    const script = overManyKeys(lua`return #KEYS .. ${arg('a')} .. ${key('lock')}`);
    expect(script.operands({ lock: ['k', 'l', 'm'], a: 1 })).toEqual([3, 'k', 'l', 'm', 1]);
  });

  it('passes the arguments behind a fold as one text, and has Lua make arguments of it', () => {
    const script = lua`return ${arg('a')}, ${key('k')}${FOLD}${arg('b')}, ${arg('a')}, ${arg('c')}`;
    expect(script.operands({ k: 'key', a: 1, b: '', c: 'two' })).toEqual([1, 'key', 1, '\ntwo']);
    expect(script.text).toContain('local position = 2\n');
    expect(script.text).toContain('ARGV[2], ARGV[1], ARGV[3]');
  });

  it('knows a script by the hash of its text', () => {
    const script = lua`return ${key('k')}`;
    expect(script.sha1).toBe(createHash('sha1').update('return KEYS[1]').digest('hex'));
  });

  it('passes an empty string and zero, and refuses an operand that is missing', () => {
    const script = lua`return ${key('k')} .. ${arg('a')}`;
    expect(script.operands({ k: '', a: 0 })).toEqual([1, '', 0]);
    expect(() => script.operands({ k: 'key' } as never)).toThrow('script operand "a", got undefined');
    expect(() => script.operands({ a: 'value' } as never)).toThrow('script operand "k", got undefined');
  });

  it('keeps what Lua needs escaped', () => {
    expect(lua`return '\\n' .. string.match(${arg('a')}, '%d+')`.text).toBe(
      "return '\\n' .. string.match(ARGV[1], '%d+')",
    );
  });
});

describe('every lock script', () => {
  const scripts: [string, LuaScript<string, string, any>][] = Object.entries(createLockScripts());

  // A batch has functions with keys and arguments of their own.
  const withoutBatch = scripts.filter(([name]) => name !== 'batch');

  const keyOf = (name: string): string => (name.endsWith('History') ? 'history' : 'lock');

  it.each(withoutBatch)('%s declares one key, the lock or the history, and no other', (name, script) => {
    const values = Object.fromEntries([...script.keys, ...script.args].map((name) => [name, `<${name}>`]));
    expect(script.keys).toEqual([keyOf(name)]);
    expect(script.operands(values as never).slice(0, 2)).toEqual([1, `<${keyOf(name)}>`]);
    expect(new Set(script.text.match(/KEYS\[[^\]]*\]/g))).toEqual(new Set(['KEYS[1]']));
  });

  it.each(withoutBatch)('%s uses each argument that it takes, by a literal number', (name, script) => {
    // All but those that become arguments (FOLD), and the entries of the history behind those with names.
    const entries = /ARGV\[position( \+ [123])?\]/g;
    const text = script.text.replaceAll(entries, '');
    const used = new Set(text.match(/ARGV\[[^\]]*\]/g));
    expect(used).toEqual(new Set(script.args.map((_name, i) => `ARGV[${i + 1}]`)));
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

  it('differs from the others', () => {
    expect(new Set(scripts.map(([, { sha1 }]) => sha1)).size).toBe(scripts.length);
  });

  it('takes the arguments that its header names', () => {
    const documented = scripts.map(([name, { args }]) => [name, [...args].sort()]);
    const many =
      'attempt channelPrefix countReceivers fair holder keepMs leaseMs maxWaiters mode owner permits sentMicros take untilMicros waiterLeaseMs';
    expect(Object.fromEntries(documented)).toEqual({
      acquire: [
        ...many.split(' '),
        'job',
        'plain',
        'fireKind',
        'fireMs',
        'fireAgeMs',
        'rememberMs',
        'rerun',
        'ttlMs',
        'windowDigits',
      ].sort(),
      batch: ['own', 'sentMicros', 'untilMicros'],
      acquireMany: many.split(' '),
      adopt: 'attempt channelPrefix countReceivers from holder keepMs leaseMs token unanswered'.split(' '),
      downgrade: 'attempt channelPrefix countReceivers keepMs token'.split(' '),
      forceRelease: 'attempt channelPrefix countReceivers keepMs seenToken'.split(' '),
      setPermits: 'attempt channelPrefix countReceivers keepMs permits'.split(' '),
      release: 'attempt channelPrefix countReceivers holdAtLeastMs job keepMs plain runOutcome unanswered'.split(' '),
      renew: 'attempt channelPrefix countReceivers keepMs leaseMs mode plain token ttlMs'.split(' '),
      writeBack: 'attempt channelPrefix countReceivers keepMs newToken token'.split(' '),
      inspect: [],
      appendHistory: 'batch expected host keepMs last maxEntries pid'.split(' '),
      readHistory: 'before key most question quoted'.split(' '),
    });
  });
});
