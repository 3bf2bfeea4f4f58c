import { type LockScripts } from '../../../lib/redis/scripts/lock-scripts.js';
import { type ModelledScript } from '../../support/model/script-model.js';
import { type Values, keysOf, operationsOf, valuesOf } from '../../support/model/wire-values.js';
import { type SimProcess } from '../world/sim-process.js';

/** An error that Redis replies with. */
export class ReplyError extends Error {
  override readonly name = 'ReplyError';
}

/** A script for some locks that arrived, with its operands by name; or one operation of a batch. */
export interface ScriptCall {
  readonly name: ModelledScript;
  readonly process: SimProcess;
  readonly keys: readonly string[];
  readonly values: Values;
  text(arg: string): string;
  number(arg: string): number;
}

/** What arrived in one command. */
interface Received {
  readonly sha1: string;
  readonly calls: readonly ScriptCall[];
  readonly isBatch: boolean;
}

type Known = [name: ModelledScript | 'batch', script: LockScripts[keyof LockScripts]];

/** Reads commands as the scripts of the library do. */
export class ServerScripts {
  readonly #bySha1 = new Map<string, Known>();
  readonly #byText = new Map<string, Known>();

  constructor(readonly scripts: LockScripts) {
    // The applications of the simulation write no history.
    const { appendHistory: _append, readHistory: _read, ...played } = scripts;
    for (const known of Object.entries(played) as Known[]) {
      this.#bySha1.set(known[1].sha1, known);
      this.#byText.set(known[1].text, known);
    }
  }

  read(by: 'sha1' | 'text', which: string, operands: readonly unknown[], process: SimProcess): Received {
    const known = (by === 'sha1' ? this.#bySha1 : this.#byText).get(which);
    if (!known) throw new ReplyError('ERR Error compiling script');
    const [name, script] = known;
    const { sha1 } = script;
    if (name !== 'batch') return { sha1, calls: [callOf(name, valuesOf(script, operands), process)], isBatch: false };
    const calls = operationsOf(script, operands).map((one) => callOf(one.name, one.values, process));
    return { sha1, calls, isBatch: true };
  }
}

function callOf(name: ModelledScript, values: Values, process: SimProcess): ScriptCall {
  const text = (arg: string): string => String(values[arg]);
  const number = (arg: string): number => Number(values[arg]);
  return { name, process, keys: keysOf(values), values, text, number };
}
