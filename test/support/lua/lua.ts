import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { LuaApi } from 'wasmoon-lua5.1';
import { ROOT } from '../../simulation/library/typescript-loader.mjs';

/** An error that Redis replies with. */
export class ReplyError extends Error {
  override readonly name = 'ReplyError';
}

/** A hash in Redis. Nothing changes it: a script puts another one in its place. */
export interface Hash {
  readonly fields: ReadonlyMap<string, string>;
  /** In milliseconds of the server's clock. */
  readonly expiresAt: number;
  /** Lua may have it still, by this number. */
  readonly number: number;
}

/** What a key has: a hash, nothing, or something else. */
export type Value = Hash | undefined | 'other';

/** The value of a key after a step of a script. */
export interface KeyChange {
  readonly key: string;
  readonly value: Hash | undefined;
}

/** What a script finds on the server that runs it. */
export interface Surroundings {
  readonly micros: number;
  /** The error of a server that refuses the first write of a script; of one without memory, if it needs some. */
  readonly refusal: string;
  /** The channels and the number of their subscribers, one per line. */
  readonly listening: string;
  valueOf(key: string): Value;
}

/** What a script did. An error leaves what was done before it. */
export interface ScriptRun {
  readonly reply: unknown;
  readonly messages: readonly (readonly [channel: string, message: string])[];
  /** What each function changed that the script protects from errors of others, and what it changed after that. */
  readonly steps: readonly (readonly KeyChange[])[];
}

/** Runs scripts for all servers. What a key has goes in, and what has changed comes out: Lua keeps hashes only to save time. */
export class Lua {
  static #opened: Promise<Lua> | undefined;
  readonly #module: { readonly HEAPU8: Uint8Array };
  readonly #native: ReturnType<typeof nativesOf>;
  readonly #state: number;
  readonly #lengthAt: number;
  #buffer: number;
  #capacity = 1 << 16;
  #bytes: Buffer;
  readonly #loaded = new Set<string>();
  /** The hashes that Lua has. */
  #kept = new WeakSet<Hash>();

  static open(): Promise<Lua> {
    return (Lua.#opened ??= LuaApi.initialize().then((api) => new Lua(api)));
  }

  private constructor(api: LuaApi) {
    this.#module = api.module as never;
    this.#native = nativesOf(api.module as never);
    this.#state = api.luaL_newstate();
    api.luaL_openlibs(this.#state);
    this.#lengthAt = this.#native.malloc(4);
    this.#buffer = this.#native.malloc(this.#capacity);
    this.#bytes = Buffer.from(this.#module.HEAPU8.buffer);
    api.luaL_loadstring(this.#state, readFileSync(join(ROOT, 'test/support/lua/redis.lua'), 'utf8'));
    this.#call(0, 0);
  }

  /** Compiles a script. @throws ReplyError */
  load(sha1: string, text: string): void {
    if (this.#loaded.has(sha1)) return;
    const [problem] = this.#callGlobal('load_script', [sha1, bytesOf(text)], 1);
    if (problem) throw new ReplyError(`ERR Error compiling script (new function): ${problem}`);
    this.#loaded.add(sha1);
  }

  /** The hashes of another run are of no use. */
  forgetHashes(): void {
    this.#kept = new WeakSet();
    this.#callGlobal('forget_hashes', [], 0);
  }

  run(sha1: string, keys: readonly string[], args: readonly string[], server: Surroundings): ScriptRun {
    const { micros, refusal, listening } = server;
    const words = [sha1, `${Math.floor(micros / 1e6)} ${micros % 1e6}`, refusal, listening, `${keys.length}`];
    const values = new Map<string, Value>();
    for (const key of keys) {
      const value = values.get(key) ?? server.valueOf(key);
      words.push(bytesOf(key));
      if (value === undefined || value === 'other') words.push(value ?? '', '', '0');
      else this.#pushHash(words, value);
      values.set(key, value);
    }
    for (const arg of args) words.push(bytesOf(arg));
    return this.#read(this.#callGlobal('run_script', words, 3) as [string, string, string], keys, values);
  }

  #pushHash(words: string[], hash: Hash): void {
    const { number, expiresAt, fields } = hash;
    const isKept = this.#kept.has(hash);
    words.push(`${number}`, expiresAt === Infinity ? '' : `${expiresAt}`, isKept ? '0' : `${2 * fields.size}`);
    if (!isKept) for (const [field, value] of fields) words.push(field, value);
    this.#kept.add(hash);
  }

  #callGlobal(name: string, words: readonly string[], results: number): string[] {
    const { getfield, checkstack, pushlstring, settop } = this.#native;
    const whole = words.join('');
    this.#write(`${name}\0`);
    getfield(this.#state, LUA_GLOBALS, this.#buffer);
    checkstack(this.#state, words.length + 8);
    this.#write(whole);
    let at = this.#buffer;
    for (const { length } of words) {
      pushlstring(this.#state, at, length);
      at += length;
    }
    this.#call(words.length, results);
    const texts = Array.from({ length: results }, (_, i) => this.#textAt(i - results));
    settop(this.#state, 0);
    return texts;
  }

  /** Reads what `run_script` returns: `values` are those before it. */
  #read(
    [tags, lengths, data]: readonly [string, string, string],
    keys: readonly string[],
    values: Map<string, Value>,
  ): ScriptRun {
    const ends = lengths === '' ? [] : lengths.split(' ');
    let [tagAt, next, start] = [0, 0, 0];
    const bytes = (): string => data.slice(start, (start += Number(ends[next++])));
    const readReply = (): unknown => {
      const tag = tags[tagAt++];
      if (tag === 's') return textOf(bytes());
      if (tag === 'i') return Number(bytes());
      if (tag === 'e') return new ReplyError(textOf(bytes()));
      if (tag === 'n') return null;
      const list: unknown[] = [];
      while (tags[tagAt] !== ')') list.push(readReply());
      tagAt += 1;
      return list;
    };
    const readHash = (before: Value, number: string, expiresAt: string): Hash => {
      const fields = new Map(typeof before === 'object' ? before.fields : []);
      while (tags[tagAt] === 'f') {
        const field = bytes();
        if (tags[tagAt + 1] === 'v') fields.set(field, bytes());
        else fields.delete(field);
        tagAt += 2;
      }
      const hash = { fields, expiresAt: expiresAt === '' ? Infinity : Number(expiresAt), number: Number(number) };
      this.#kept.add(hash);
      return hash;
    };
    const messages: [string, string][] = [];
    const steps: KeyChange[][] = [];
    for (let changes: KeyChange[] = []; 'mcd/'.includes(tags[tagAt]!);) {
      const tag = tags[tagAt++];
      if (tag === 'm') {
        messages.push([textOf(bytes()), textOf(bytes())]);
        tagAt += 1;
      } else if (tag === '/') {
        steps.push(changes);
        changes = [];
      } else {
        const [index, number, expiresAt] = bytes().split(' ') as [string, string, string];
        const key = keys[Number(index)]!;
        const before = values.get(key);
        if (typeof before === 'object') this.#kept.delete(before);
        const value = tag === 'c' ? readHash(before, number, expiresAt) : undefined;
        values.set(key, value);
        changes.push({ key, value });
      }
    }
    return { reply: readReply(), messages, steps };
  }

  #call(args: number, results: number): void {
    if (this.#native.pcall(this.#state, args, results, 0) !== 0) throw new Error(`Lua: ${this.#textAt(-1)}`);
  }

  #write(text: string): void {
    if (text.length > this.#capacity) {
      this.#native.free(this.#buffer);
      this.#capacity = 2 * text.length;
      this.#buffer = this.#native.malloc(this.#capacity);
    }
    this.#memory.latin1Write(text, this.#buffer);
  }

  #textAt(index: number): string {
    const start = this.#native.tolstring(this.#state, index, this.#lengthAt);
    const length = this.#memory.readUInt32LE(this.#lengthAt);
    return this.#memory.latin1Slice(start, start + length);
  }

  /** The memory moves when it grows. */
  get #memory(): Buffer & Latin1 {
    const { buffer } = this.#module.HEAPU8;
    if (this.#bytes.buffer !== buffer) this.#bytes = Buffer.from(buffer);
    return this.#bytes as Buffer & Latin1;
  }
}

/** The functions of Lua's API as WebAssembly exports them: those of the package copy and convert each text. */
function nativesOf(module: Readonly<Record<string, (...args: readonly number[]) => number>>) {
  return {
    malloc: module['_malloc']!,
    free: module['_free']!,
    getfield: module['_lua_getfield']!,
    checkstack: module['_lua_checkstack']!,
    pushlstring: module['_lua_pushlstring']!,
    settop: module['_lua_settop']!,
    pcall: module['_lua_pcall']!,
    tolstring: module['_lua_tolstring']!,
  };
}

interface Latin1 {
  latin1Write(text: string, at: number): void;
  latin1Slice(from: number, to: number): string;
}

/** The pseudo-index of the globals in Lua 5.1. */
const LUA_GLOBALS = -10_002;

/** In Lua, a text is a string of bytes: here, each is one character. */
const bytesOf = (text: string): string => (/^[\0-\x7f]*$/.test(text) ? text : Buffer.from(text).toString('latin1'));

const textOf = (bytes: string): string =>
  /^[\0-\x7f]*$/.test(bytes) ? bytes : Buffer.from(bytes, 'latin1').toString();

const shas = new Map<string, string>();

/** The SHA1 of a script, as EVALSHA names it. */
export function sha1Of(text: string): string {
  const known = shas.get(text) ?? createHash('sha1').update(text).digest('hex');
  shas.set(text, known);
  return known;
}
