import { type ResourceTotals } from './events.js';

/** A message of a worker about one key of the resource; `token` is undefined for clients that have none. */
export interface ResourceRequest {
  readonly read?: string;
  readonly write?: string;
  readonly token?: number;
  /** What the worker has read of both registers. */
  readonly plain?: number;
  readonly fenced?: number | null;
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
 * What the locks protect: two counters per key, which the workers count up by reading, working and writing. One takes every
 * write; the other refuses tokens that are smaller than the greatest that it has seen.
 */
export class Resource {
  readonly #registers = new Map<string, Register>();

  answer({ read, write, token, plain, fenced }: ResourceRequest): object {
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
    return {};
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
