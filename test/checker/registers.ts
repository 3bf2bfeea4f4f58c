import { type ResourceTotals } from './events.js';
import { type Call, type History, type Violation } from './history.js';
import { linearize, type Operation, type Sequential } from './linearize.js';
import { groupBy } from './spans.js';

/** A message of a worker about one key of the resource; `token` is undefined for clients without tokens. */
export interface ResourceRequest {
  readonly read?: string;
  readonly write?: string;
  readonly token?: number;
  /** What the worker has read of both registers. */
  readonly plain?: number;
  readonly fenced?: number | null;
}

interface ResourceAnswer {
  /** What both registers have; null if the token is too small. */
  readonly plain?: number;
  readonly fenced?: number | null;
  /** Whether the fenced register took the write. */
  readonly isAccepted?: boolean;
}

interface Register {
  plain: number;
  fenced: number;
  maxToken: number;
  confirmed: number;
  plainConfirmed: number;
  refused: number;
}

/**
 * The resource under the locks: two counters per key, which the workers increase by reading, working and writing. One accepts every
 * write; the other rejects tokens smaller than the greatest one seen.
 */
export class Resource {
  readonly #registers = new Map<string, Register>();

  answer({ read, write, token, plain, fenced }: ResourceRequest): ResourceAnswer {
    const register = this.#register(read ?? write!);
    const isFresh = token !== undefined && token >= register.maxToken;
    if (isFresh) register.maxToken = token;
    if (read !== undefined) return { plain: register.plain, fenced: isFresh ? register.fenced : null };
    register.plain = plain! + 1;
    register.plainConfirmed += 1;
    if (token !== undefined && (!isFresh || fenced === null)) register.refused += 1;
    else if (token !== undefined) {
      register.fenced = fenced! + 1;
      register.confirmed += 1;
    }
    return { isAccepted: isFresh };
  }

  totals(): [string, ResourceTotals][] {
    return [...this.#registers].map(([key, { plain, fenced, confirmed, plainConfirmed, refused }]) => [
      key,
      { confirmed, counted: fenced, refused, plainConfirmed, plainCounted: plain },
    ]);
  }

  #register(key: string): Register {
    const known = this.#registers.get(key);
    if (known) return known;
    const register = { plain: 0, fenced: 0, maxToken: 0, confirmed: 0, plainConfirmed: 0, refused: 0 };
    this.#registers.set(key, register);
    return register;
  }
}

/** A write of what a holder has read and counted up; without an answer, it may have come or not. */
interface Count extends Operation {
  readonly name: string;
  readonly was: number;
}

/** A register that nothing changes between the read and the write of one holder: so each counts up what the one before wrote. */
const COUNTER: Sequential<number, Count> = {
  start: 0,
  next: (value, { was }, time) => (was === value ? { state: value + 1, time } : undefined),
  isPast: (value, { was }) => was < value,
};

/** The fenced writes of each key have an order in which none is lost, and after which the register has the value that it has. */
export function fencedWrites(history: History): Violation[] {
  const writing = [...history.calls.values()].filter(({ writes }) => writes.length > 0);
  const keys = groupBy(writing, ({ keys: [key] }) => key!);
  for (const key of history.resources.keys()) if (!keys.has(key)) keys.set(key, []);
  return [...keys].flatMap(([key, calls]) => {
    const found = linearize([...calls.flatMap(countsOf), ...lastOf(history, key)], COUNTER);
    // A search that was given up proves nothing.
    if (!found?.isComplete) return [];
    const { name, was, to } = found.operation;
    const text = `${name} found ${was} in ${key}, which has had ${found.state} fenced writes`;
    return [{ rule: 'fenced-writes' as const, t: to, text }];
  });
}

const countsOf = ({ op, writes }: Call): Count[] => writes.map((write) => ({ ...write, name: op }));

/** The value at the end. */
function lastOf({ resources, endedAt }: History, key: string): Count[] {
  const totals = resources.get(key);
  return totals ? [{ name: 'the end of the run', was: totals.counted, from: endedAt, to: endedAt }] : [];
}
