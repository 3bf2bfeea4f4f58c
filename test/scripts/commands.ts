/** The fields of an acquire command on which the behaviour of a lock depends. */
export interface Request {
  readonly keys: readonly string[];
  readonly attempt: string;
  readonly owner: string;
  readonly mode: string;
  readonly leaseMs: number;
  readonly waiterLeaseMs: number;
  readonly fair: number;
  readonly permits: number;
  readonly take: number;
  readonly maxWaiters: number;
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
  readonly holdAtLeastMs: number;
  readonly job: string;
  readonly runOutcome: string;
  readonly unanswered: number;
  readonly repeated: boolean;
}

interface Renew extends ToOne {
  readonly name: 'renew';
  readonly token: number;
  readonly leaseMs: number;
  readonly mode: string;
}

interface Downgrade extends ToOne {
  readonly name: 'downgrade';
  readonly token: number;
}

interface Adopt extends ToOne {
  readonly name: 'adopt';
  readonly from: string;
  readonly token: number;
  readonly leaseMs: number;
  readonly holder: string;
  readonly unanswered: number;
}

interface ForceRelease extends ToOne {
  readonly name: 'forceRelease';
  readonly seenToken: number;
}

interface SetPermits extends ToOne {
  readonly name: 'setPermits';
  /** `-`: the requests send it again. */
  readonly permits: number | '-';
}

interface WriteBack extends ToOne {
  readonly name: 'writeBack';
  readonly token: number;
  readonly newToken: number;
}

interface Acquire {
  readonly name: 'acquire';
  readonly request: Request;
  /** By the server's clock. */
  readonly sentMicros: number;
  readonly untilMicros: number;
}

export type Command = Acquire | Release | Renew | Downgrade | Adopt | ForceRelease | SetPermits | WriteBack;

/** The locks that a command is about. */
export const keysOf = (command: Command): readonly string[] =>
  command.name === 'acquire' ? command.request.keys : [command.key];

/** How old an acquire may get. */
export const MAX_AGE_MS = 20_000;

export const clientOf = (attempt: string): string => attempt.split('.')[0]!;
