import { FAILED } from '../../../lib/redis/scripts/batch.js';
import { type LockScripts } from '../../../lib/redis/scripts/lock-scripts.js';
import { type LuaScript } from '../../../lib/redis/scripts/lua.js';
import { type Values, keysOf, operationsOf, valuesOf } from '../../support/redis/wire-values.js';
import { type ReceivedScript } from '../server/sim-server.js';
import { type SimProcess } from '../world/sim-process.js';

export type Reply = readonly (string | number)[];

/** What a script was sent for: its operands by name. */
export interface ScriptCall {
  readonly name: string;
  readonly process: SimProcess;
  readonly keys: readonly string[];
  text(arg: string): string;
  number(arg: string): number;
}

/** Knows the scripts of the library: of those that a server ran, what was asked, and what was replied. */
export class ScriptReader {
  readonly #bySha1: ReadonlyMap<string, readonly [name: string, script: LuaScript<any, any, any>]>;

  constructor(scripts: LockScripts) {
    this.#bySha1 = new Map(Object.entries(scripts).map(([name, script]) => [script.sha1, [name, script]]));
  }

  /** The operations of a script; of a batch, each is a step of its own. Of a script that is not for locks: none. */
  read({ sha1, process, keys, args }: ReceivedScript): { readonly calls: readonly ScriptCall[]; isBatch: boolean } {
    const known = this.#bySha1.get(sha1);
    if (!known) return { calls: [], isBatch: false };
    const [name, script] = known;
    const operands = [keys.length, ...keys, ...args];
    const isBatch = name === 'batch';
    const operations = isBatch ? operationsOf(script, operands) : [{ name, values: valuesOf(script, operands) }];
    return { calls: operations.map((one) => callOf(one.name, one.values, process)), isBatch };
  }

  /** The replies of the operations, each in parts; null for one that failed. */
  repliesOf(reply: unknown, isBatch: boolean): readonly (Reply | null)[] {
    if (!isBatch) return [partsOf(reply)];
    return (typeof reply === 'string' ? reply.split('\n') : (reply as unknown[])).map(partsOf);
  }
}

/** The plain path replies with one text. */
const partsOf = (reply: unknown): Reply | null => {
  if (reply instanceof Error || reply === FAILED) return null;
  return typeof reply === 'string' ? reply.split(' ') : (reply as Reply);
};

function callOf(name: string, values: Values, process: SimProcess): ScriptCall {
  const text = (arg: string): string => String(values[arg]);
  const number = (arg: string): number => Number(values[arg]);
  return { name, process, keys: keysOf(values), text, number };
}
