import { type Hash, type Lua, ReplyError } from '../support/lua/lua.js';
import { type LockView, lockOn } from '../support/lua/lock-view.js';
import { type AnyScripts, FAR_MS, type Operands, partsOf, wireValues } from './run-script.js';

/** The surroundings of the scripts, as a game sets them. */
interface Surroundings {
  micros(): number;
  /** The channels and the number of their subscribers, one per line. */
  listening(): string;
  publish(channel: string, message: string): void;
}

/** A server of the simulation beside the real one: it runs the scripts as the library has them, and must do the same. */
export class LuaServer {
  /** The error with which it refuses the first write of a script; of a full server, if it needs memory. */
  refusal = '';
  /** The keys under which something else is. */
  readonly strangers = new Set<string>();
  readonly #hashes = new Map<string, Hash>();

  constructor(
    private readonly lua: Lua,
    private readonly scripts: AnyScripts,
    private readonly around: Surroundings,
  ) {}

  /** @throws ReplyError */
  run(name: keyof AnyScripts, values: Operands): string[] {
    const { sha1, text, ...script } = this.scripts[name];
    this.lua.load(sha1, text);
    const [count, ...operands] = script.operands(wireValues(values) as never).map(String);
    const keys = operands.splice(0, Number(count));
    const { reply, messages, steps } = this.lua.run(sha1, keys, operands, {
      micros: this.around.micros(),
      refusal: this.refusal,
      listening: this.around.listening(),
      valueOf: (key) => (this.strangers.has(key) ? 'other' : this.#hashes.get(key)),
    });
    for (const { key, value } of steps.flat()) {
      if (value) this.#hashes.set(key, value);
      else this.#hashes.delete(key);
    }
    for (const [channel, message] of messages) this.around.publish(channel, message);
    if (reply instanceof ReplyError) throw reply;
    return partsOf(reply, values).map(String);
  }

  hash(key: string): Hash | undefined {
    return this.#hashes.get(key);
  }

  fields(key: string): Readonly<Record<string, string>> {
    return Object.fromEntries(this.hash(key)?.fields ?? []);
  }

  look(key: string): LockView {
    return lockOn(this, key);
  }

  /** By the clock of the game; undefined: there is no such key. */
  expiresAt(key: string): number | undefined {
    const hash = this.hash(key);
    return hash && hash.expiresAt - FAR_MS;
  }

  delete(keys: readonly string[]): void {
    for (const key of keys) this.#hashes.delete(key);
  }
}
