import { type Script } from '../../lib/redis/connection/command.js';
import { type LockScripts, createLockScripts } from '../../lib/redis/scripts/lock-scripts.js';
import { type Hash, type Lua, sha1Of } from '../support/lua/lua.js';
import { FAR_MS } from './run-script.js';

/** The surroundings of the scripts, as a game sets them. */
interface Surroundings {
  micros(): number;
  /** The error with which the server refuses the first write of a script; of a full server, if it needs memory. */
  refusal(): string;
  /** Whether something else is under a key. */
  hides(key: string): boolean;
  /** The channels with a listener. */
  channels(): readonly string[];
}

/** A server of the simulation next to the real one: it runs the scripts of the library, and must give the same results. */
export class LuaServer {
  readonly #texts: ReadonlyMap<string, string>;
  readonly #hashes = new Map<string, Hash>();
  #messages: string[] = [];

  constructor(
    private readonly lua: Lua,
    /** Those of the real server, with the clock of the test. */
    scripts: LockScripts,
    private readonly around: Surroundings,
  ) {
    const unmodified = createLockScripts();
    this.#texts = new Map(
      Object.entries(scripts).map(([name, text]) => [sha1Of(text), unmodified[name as keyof LockScripts]]),
    );
  }

  run({ script, operands: [count, ...operands] }: Script): unknown {
    const { lua, around } = this;
    const text = this.#texts.get(script.sha1)!;
    const [sha1, words] = [sha1Of(text), operands.map(String)];
    lua.load(sha1, text);
    const channels = around.channels();
    const { reply, messages, steps } = lua.run(sha1, words.splice(0, Number(count)), words, {
      micros: around.micros(),
      refusal: around.refusal(),
      listening: channels.map((channel) => `${channel}\n1\n`).join(''),
      valueOf: (key) => (around.hides(key) ? 'other' : this.#hashes.get(key)),
    });
    for (const { key, value } of steps.flat()) {
      if (value) this.#hashes.set(key, value);
      else this.#hashes.delete(key);
    }
    for (const [channel, message] of messages) {
      if (channels.includes(channel)) this.#messages.push(`${channel.split(':').at(-1)} ${message}`);
    }
    return reply;
  }

  /** Returns the messages that were published so far, and forgets them. */
  published(): string[] {
    return this.#messages.splice(0);
  }

  /** Each field with its value as bytes, and until when the key is kept by the clock of the game. */
  record(key: string): unknown {
    const hash = this.#hashes.get(key);
    return { fields: Object.fromEntries(hash?.fields ?? []), at: hash ? hash.expiresAt : -2 };
  }

  delete(keys: readonly string[]): void {
    for (const key of keys) this.#hashes.delete(key);
  }
}

/** The same of a key of the real server. */
export function recordOf(fields: readonly Buffer[], at: number): unknown {
  const texts = fields.map((part) => part.toString('latin1'));
  const pairs = texts.flatMap((field, i) => (i % 2 === 0 ? [[field, texts[i + 1]!] as const] : []));
  return { fields: Object.fromEntries(pairs), at: at < 0 ? at : at - FAR_MS };
}

/** A reply as both give it: of an error the code, of a busy lock not which of its writers is named. */
export function plainReply(reply: unknown): unknown {
  if (reply instanceof Error) return /\b(WRONGTYPE|OOM|READONLY) /.exec(reply.message)?.[1] ?? reply.message;
  if (typeof reply === 'string') return reply;
  const parts = (reply as unknown[]).map((part) => (Array.isArray(part) ? plainReply(part) : String(part)));
  return parts[0] === 'busy' ? parts.map((part, i) => (i === 5 || i === 6 ? part !== '' : part)) : parts;
}
