import { type LockScripts } from '../../../lib/redis/scripts/lock-scripts.js';
import { sha1Of } from '../../support/lua/lua.js';
import { type ReceivedScript } from '../server/sim-server.js';
import { type SimProcess } from '../world/sim-process.js';

export type Reply = readonly (string | number)[];

/** What a script was sent for: its operands by name, as far as rules need them. */
export interface ScriptCall {
  readonly name: string;
  readonly process: SimProcess;
  readonly keys: readonly string[];
  /** Empty if it has none of this name. */
  text(arg: string): string;
  number(arg: string): number;
}

type Values = Readonly<Record<string, string | undefined>>;

/** Knows the scripts of the library: of those that a server ran, what was asked, and what was replied. */
export class ScriptReader {
  readonly #bySha1: ReadonlyMap<string, keyof LockScripts>;

  constructor(scripts: LockScripts) {
    this.#bySha1 = new Map(Object.entries(scripts).map(([name, text]) => [sha1Of(text), name as keyof LockScripts]));
  }

  /** The operations of a script; if there are several, each is a separate step. Empty for a script that is not for locks. */
  read({ sha1, process, keys, args }: ReceivedScript): { readonly calls: readonly ScriptCall[]; isBatch: boolean } {
    const name = this.#bySha1.get(sha1);
    if (name === 'inspect') return { calls: [callOf(name, {}, keys, process)], isBatch: false };
    if (name !== 'operate') return { calls: [], isBatch: false };
    const lines = args[2]!.split('\n').slice(0, -1);
    const isBatch = lines.length > 1;
    const calls = lines.map((line, i) => {
      const [number, attempt, token] = line.split(' ');
      const own = isBatch ? [keys[i]!] : keys;
      const [operation, values] = operationOf(args[2 + Number(number)]!, attempt!, own.length);
      return callOf(operation, { ...values, token }, own, process);
    });
    return { calls, isBatch };
  }

  /** The replies of the operations, each in parts; null for one that failed. */
  repliesOf(reply: unknown, isBatch: boolean): readonly (Reply | null)[] {
    if (!isBatch || reply instanceof Error) return [partsOf(reply)];
    return (typeof reply === 'string' ? reply.split('\n') : (reply as unknown[])).map(partsOf);
  }
}

function partsOf(reply: unknown): Reply | null {
  if (typeof reply === 'string') return reply.split(' ').map((part) => (/^\d+$/.test(part) ? Number(part) : part));
  return reply instanceof Error || (reply as Reply)[0] === 'failed' ? null : (reply as Reply);
}

/** The terms of an operation (lib/redis/scripts/operate.lua). */
function operationOf(terms: string, attempt: string, locks: number): [name: string, values: Values] {
  const [head, numbers, , owner, fire] = terms.split('\n') as [string, string, ...string[]];
  const words = numbers.split(' ');
  if (head.startsWith('d')) return ['adopt', { attempt, from: words[0] }];
  if (head.startsWith('w')) return ['writeBack', { attempt }];
  if (head.startsWith('f')) return ['forceRelease', { attempt, seenToken: words[0] }];
  if (head.startsWith('p')) return ['setPermits', { attempt }];
  if (head.startsWith('r')) return ['release', { attempt, atLeast: words[1], runOutcome: words[3] }];
  const mode = words[0] === 'r' ? 'read' : 'write';
  if (head.startsWith('n'))
    return [words[0] === 'r' && words[1] === '0' ? 'downgrade' : 'renew', { attempt, mode, lease: words[1] }];
  const [, fair, lease, span, most, permits, take] = words;
  const asked = { attempt, mode, owner, fair, lease, span, most, permits, take, fire };
  return [locks > 1 ? 'acquireMany' : 'acquire', asked];
}

function callOf(name: string, values: Values, keys: readonly string[], process: SimProcess): ScriptCall {
  const text = (arg: string): string => values[arg] ?? '';
  return { name, process, keys, text, number: (arg) => Number(text(arg)) };
}
