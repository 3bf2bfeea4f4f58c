import { readFileSync, readdirSync } from 'node:fs';
import { createLockScripts } from '../../lib/redis/scripts/lock-scripts.js';
import { type LuaScript, arg, key, lua } from '../../lib/redis/scripts/lua.js';
import { type ScriptPart, inOrder, scriptPart } from '../../lib/redis/scripts/parts/script-part.js';
import { type LuaNames, luaNames } from './lua-names.js';

const SCRIPTS = new URL('../../lib/redis/scripts/', import.meta.url);
const GIVEN = new Set('error ipairs math pcall redis string table tonumber tostring type KEYS ARGV'.split(' '));
/** What the clock defines, of which each script gets one. */
const CLOCK = 'time';

describe('luaNames', () => {
  it.each<[string, string, Partial<Record<keyof LuaNames, readonly string[]>>]>([
    ['functions and variables', 'local a, b = 1\nlocal function f() end', { functions: ['f'], variables: ['a', 'b'] }],
    ['no variable inside a block', 'if x then local a = 1 end', { variables: [], read: ['x'] }],
    ['no parameter', 'local function f(a, b) return a + b + c end', { free: ['c'] }],
    ['no variable of a loop', 'for i, v in ipairs(t) do g(i, v) end', { free: ['ipairs', 't', 'g'] }],
    ['names that are assigned', 'a, b = b, 1', { assigned: ['a', 'b'], read: ['b'] }],
    ['no field', 'x.y = { z = w }', { free: ['x', 'w'], assigned: [] }],
    ['a name that only another block defines', 'do local a = 1 end return a', { read: ['a'] }],
    ['no word of a string or comment', `f('a b', "c") -- d`, { free: ['f'] }],
    [
      'names that a function assigns',
      'local function f() if a then b = 1 else c = 2 end end',
      { assigned: ['b', 'c'] },
    ],
  ])('reports %s', (_what, text, expected) => {
    const names = luaNames(text);
    const reported = Object.keys(expected).map((kind) => [kind, [...names[kind as keyof LuaNames]]]);
    expect(Object.fromEntries(reported)).toEqual(expected);
  });

  it('throws when a block has no end, or an end has no block', () => {
    expect(() => luaNames('if a then')).toThrow('1 blocks of the Lua text are not ended.');
    expect(() => luaNames('if a then end end')).toThrow('ends a block that it did not begin');
  });
});

describe('scriptPart', () => {
  it('throws when no needed part defines a variable that it reads or writes', () => {
    const state = scriptPart({ name: 'state', needs: [], defines: 'now token' }, lua`local now, token = 1, 2`);
    const head = { name: 'queue', needs: [state] } as const;
    expect(() => scriptPart({ ...head, reads: 'now head' }, lua`f(now, head)`)).toThrow(
      'The script part "queue" uses "head": add the part that defines it to "needs".',
    );
    expect(() => scriptPart({ ...head, needs: [], writes: 'token' }, lua`token = 1`)).toThrow('uses "token"');
    expect(scriptPart({ ...head, reads: 'now', writes: 'token' }, lua`token = now`).writes).toEqual(['token']);
  });

  it('accepts a variable of a part that a needed part needs', () => {
    const state = scriptPart({ name: 'state', needs: [], defines: 'now' }, lua`local now = 1`);
    const holds = scriptPart({ name: 'holds', needs: [state], reads: 'now' }, lua`f(now)`);
    expect(() => scriptPart({ name: 'queue', needs: [holds], reads: 'now' }, lua`g(now)`)).not.toThrow();
  });
});

describe('inOrder', () => {
  it('puts each part once, after the parts that it needs', () => {
    const a = scriptPart({ name: 'a', needs: [] }, lua`a${key('lock')};`);
    const b = scriptPart({ name: 'b', needs: [a] }, lua`b${arg('x')};`);
    const c = scriptPart({ name: 'c', needs: [b, a] }, lua`c${arg('y')};`);
    expect(inOrder(c, b, a).text).toBe('aKEYS[1];bARGV[1];cARGV[2];');
    expect(inOrder(c).operands({ lock: 'k', x: 1, y: 2 })).toEqual([1, 'k', 1, 2]);
  });
});

const parts = await loadParts();
const definers = new Map(parts.flatMap((part) => namesIn(part).map((name): [string, ScriptPart] => [name, part])));

async function loadParts(): Promise<ScriptPart[]> {
  const files = readdirSync(new URL('parts/', SCRIPTS)).filter((file) => !/^(clock|script-part)\./.test(file));
  const modules = await Promise.all(
    files.map((file) => import(`../../lib/redis/scripts/parts/${file.replace(/ts$/, 'js')}`)),
  );
  return modules.flatMap((module) => Object.values<ScriptPart>(module));
}

function namesIn(part: ScriptPart): string[] {
  const { functions, variables } = luaNames(part.script.text);
  return [...functions, ...variables];
}

/** The parts that define these names; throws when none does. */
function partsOf(names: Iterable<string>): string[] {
  const used = [...names].filter((name) => !GIVEN.has(name) && name !== CLOCK);
  const unknown = used.filter((name) => !definers.has(name));
  if (unknown.length > 0) throw new Error(`No part defines ${unknown.join(', ')}.`);
  return [...new Set(used.map((name) => definers.get(name)!.name))].sort();
}

const sorted = (names: Iterable<string>): string[] => [...names].sort();

describe('the head of a script part', () => {
  const byName = parts.map((part): [string, ScriptPart] => [part.name, part]);
  const isShared = (name: string) => definers.get(name)?.defines.includes(name) === true;

  it.each(byName)('of %s names the parts that it needs', (_name, part) => {
    expect(sorted(part.needs.map(({ name }) => name))).toEqual(partsOf(luaNames(part.script.text).free));
  });

  it.each(byName)('of %s names the variables that it defines, reads and writes', (_name, part) => {
    const { variables, read, assigned } = luaNames(part.script.text);
    expect({
      defines: sorted(part.defines),
      reads: sorted(part.reads),
      writes: sorted(part.writes),
    }).toEqual({ defines: sorted(variables), reads: sorted([...read].filter(isShared)), writes: sorted(assigned) });
  });

  it('is of a part whose names no other part defines', () => {
    expect(sorted(parts.flatMap(namesIn))).toEqual(sorted(definers.keys()));
  });
});

describe('a lock script', () => {
  const scripts = Object.entries(createLockScripts()) as unknown as [string, LuaScript][];
  const sources = readdirSync(SCRIPTS)
    .filter((file) => file.endsWith('.ts'))
    .map((file): [string, string] => [file, readFileSync(new URL(file, SCRIPTS), 'utf8')])
    .filter(([, source]) => source.includes('${inOrder('));

  it.each(scripts)('%s defines each name that it uses', (_name, { text }) => {
    expect([...luaNames(text).free].filter((name) => !GIVEN.has(name))).toEqual([]);
  });

  it.each(sources)('in %s names the parts that it uses itself, and no other', (_file, source) => {
    const [, named] = /\$\{inOrder\(([^)]*)\)\}/.exec(source)!;
    const text = source
      .slice(source.lastIndexOf('lua`') + 4, source.lastIndexOf('`'))
      .replace(/\$\{(clock|inOrder\([^)]*\))\}/g, '')
      .replace(/\$\{[^}]*\}/g, 'ARGV[1]');
    const constants = partsOf(luaNames(text).free).map((name) => name.toUpperCase().replaceAll('-', '_'));
    expect(sorted(named!.split(/,\s*/))).toEqual(constants);
  });
});
