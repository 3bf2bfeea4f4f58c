import { type LockScripts } from '../../../lib/redis/scripts/lock-scripts.js';
import { type SimProcess } from '../world/sim-process.js';
import { ReplyError } from './reply-error.js';

type ScriptName = keyof LockScripts;

/** A script that arrived, with its operands by name. */
export interface ScriptCall {
  readonly name: ScriptName;
  readonly sha1: string;
  readonly process: SimProcess;
  readonly keys: readonly string[];
  text(arg: string): string;
  number(arg: string): number;
}

interface Known {
  readonly name: ScriptName;
  readonly sha1: string;
  readonly positions: ReadonlyMap<string, number>;
}

/** Reads commands as the scripts of the library do. */
export class ServerScripts {
  readonly #bySha1 = new Map<string, Known>();
  readonly #byText = new Map<string, Known>();

  constructor(readonly scripts: LockScripts) {
    for (const [name, { sha1, text, args }] of Object.entries(scripts)) {
      const positions = new Map((args as readonly string[]).map((arg, i) => [arg, i]));
      const known = { name: name as ScriptName, sha1, positions };
      this.#bySha1.set(sha1, known);
      this.#byText.set(text, known);
    }
  }

  read(by: 'sha1' | 'text', which: string, [count, ...operands]: readonly unknown[], process: SimProcess): ScriptCall {
    const known = (by === 'sha1' ? this.#bySha1 : this.#byText).get(which);
    if (!known) throw new ReplyError('ERR Error compiling script');
    const { name, sha1, positions } = known;
    const keys = operands.slice(0, Number(count)).map(String);
    const args = operands.slice(Number(count));
    const text = (arg: string): string => String(args[positions.get(arg)!]);
    return { name, sha1, process, keys, text, number: (arg) => Number(text(arg)) };
  }
}
