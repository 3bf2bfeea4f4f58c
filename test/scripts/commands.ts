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
  readonly job: string;
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
  readonly job: string;
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

export const clientOf = (attempt: string): string => attempt.split('.')[0]!;
