import { type LockScripts } from '../../../lib/redis/scripts/lock-scripts.js';
import { type Values, keysOf, valuesOf } from '../../support/model/wire-values.js';
import { type SimProcess } from '../world/sim-process.js';
import { ReplyError } from './reply-error.js';

type ScriptName = keyof LockScripts;

/** A script that arrived, with its operands by name. */
export interface ScriptCall {
  readonly name: ScriptName;
  readonly sha1: string;
  readonly process: SimProcess;
  readonly keys: readonly string[];
  readonly values: Values;
  text(arg: string): string;
  number(arg: string): number;
}

type Known = [name: ScriptName, script: LockScripts[ScriptName]];

/** Reads commands as the scripts of the library do. */
export class ServerScripts {
  readonly #bySha1 = new Map<string, Known>();
  readonly #byText = new Map<string, Known>();

  constructor(readonly scripts: LockScripts) {
    for (const known of Object.entries(scripts) as Known[]) {
      this.#bySha1.set(known[1].sha1, known);
      this.#byText.set(known[1].text, known);
    }
  }

  read(by: 'sha1' | 'text', which: string, operands: readonly unknown[], process: SimProcess): ScriptCall {
    const known = (by === 'sha1' ? this.#bySha1 : this.#byText).get(which);
    if (!known) throw new ReplyError('ERR Error compiling script');
    const [name, script] = known;
    const values = valuesOf(script, operands);
    const text = (arg: string): string => String(values[arg]);
    const number = (arg: string): number => Number(values[arg]);
    return { name, sha1: script.sha1, process, keys: keysOf(values), values, text, number };
  }
}
