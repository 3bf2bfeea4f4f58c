import { type History, type Violation } from './history.js';
import { exclusion, lossTold } from './rules/exclusion.js';
import { fencedWrites, fencing, reentry } from './rules/fencing.js';
import { leaders, oneRunPerFire, somethingTested, transfers } from './rules/deeds.js';
import { noLostWakeUp, recovery } from './rules/liveness.js';
import { firstInFirstOut } from './rules/order.js';
import { callsSettle, noStrayErrors, nothingLeft, typedErrors } from './rules/settling.js';

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
