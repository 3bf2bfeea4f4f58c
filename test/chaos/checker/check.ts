import { type History } from './history.js';
import { exclusion } from './rules/exclusion.js';
import { fencedWrites, fencing, reentry } from './rules/fencing.js';
import { oneRunPerFire } from './rules/fires.js';
import { leaders } from './rules/leaders.js';
import { noLostWakeUp, recovery } from './rules/liveness.js';
import { lossTold } from './rules/loss-told.js';
import { firstInFirstOut } from './rules/order.js';
import { callsSettle, noStrayErrors, nothingLeft, typedErrors } from './rules/settling.js';
import { somethingTested } from './rules/something-tested.js';
import { transfers } from './rules/transfers.js';
import { type Violation } from './violation.js';

/** What differs between the topologies and the clients. */
export interface Judging {
  /** Independent masters decide. */
  readonly isQuorum: boolean;
  /** Calls wait in one queue. */
  readonly hasQueue: boolean;
  /** Errors are those of this library. */
  readonly isOurs: boolean;
}

export function judgingOf(topology: string, isOurs: boolean): Judging {
  const isQuorum = topology === 'quorum';
  return { isQuorum, hasQueue: isOurs && !isQuorum, isOurs };
}

/** Judges a history; the violations come in the order of time. */
export function check(history: History, { isQuorum, hasQueue, isOurs }: Judging): Violation[] {
  const rules = [
    exclusion,
    fencing(isQuorum),
    fencedWrites,
    lossTold,
    reentry,
    oneRunPerFire,
    transfers,
    leaders,
    callsSettle,
    noLostWakeUp,
    ...(hasQueue ? [firstInFirstOut] : []),
    recovery,
    nothingLeft,
    noStrayErrors,
    somethingTested,
    ...(isOurs ? [typedErrors] : []),
  ];
  return rules.flatMap((rule) => rule(history)).sort((a, b) => a.t - b.t);
}
