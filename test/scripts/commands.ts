/** What an acquire command says, as far as a lock's behaviour depends on it. */
export interface Ask {
  readonly keys: readonly string[];
  readonly attempt: string;
  readonly owner: string;
  readonly mode: string;
  readonly leaseMs: number;
  readonly waiterLeaseMs: number;
  readonly fair: number;
  readonly limit: number;
  readonly holder: string;
  readonly fireKind: string;
  readonly fireMs: number;
  readonly fireAgeMs: number;
  readonly rerun: number;
}

interface ToOne {
  readonly key: string;
  readonly attempt: string;
}

export interface Release extends ToOne {
  readonly name: 'release';
  readonly minHoldMs: number;
  readonly runOutcome: string;
}

export interface Renew extends ToOne {
  readonly name: 'renew';
  readonly token: string;
  readonly leaseMs: number;
}

export interface Downgrade extends ToOne {
  readonly name: 'downgrade';
  readonly token: string;
}

export interface ForceRelease extends ToOne {
  readonly name: 'forceRelease';
}

export type Command = { readonly name: 'acquire'; readonly ask: Ask } | Release | Renew | Downgrade | ForceRelease;

/** A parked hold has token 0. */
export interface Hold {
  readonly owner: string;
  readonly token: number;
  readonly since: number;
  mode: string;
  deadline: number;
  lease: number;
  /** Readers of a named owner: with which token the next one enters. */
  entry: number;
}

export interface Waiter extends Ask {
  deadline: number;
}

/** One run of a fire; `ended` 0 and `outcome` - are unknown. */
export interface Run {
  readonly fire: number;
  readonly attempt: string;
  readonly started: number;
  ended: number;
  outcome: string;
}

/** Granted only when it asks, in its turn: for several locks, or for a fire. */
export const comesItself = ({ keys, fireKind }: Ask): boolean => keys.length > 1 || fireKind !== '-';

export const clientOf = (attempt: string): string => attempt.split('.')[0]!;

/** The first attempts are forgotten when they fill more than 64 bytes. */
export function remember(ring: string[], attempt: string): void {
  if (!ring.includes(attempt.slice(-8))) ring.push(attempt.slice(-8));
  while (ring.length > 7) ring.shift();
}

export const isIn = (ring: readonly string[], attempt: string): boolean => ring.includes(attempt.slice(-8));
