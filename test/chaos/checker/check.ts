import { type History } from './history.js';
import { exclusion } from './rules/exclusion.js';
import { fencedWrites, fencing, reentry } from './rules/fencing.js';
import { oneRunPerFire } from './rules/fires.js';
import { noLostWakeUp, recovery } from './rules/liveness.js';
import { lossTold } from './rules/loss-told.js';
import { firstInFirstOut } from './rules/order.js';
import { callsSettle, noStrayErrors, nothingLeft } from './rules/settling.js';
import { type Violation } from './violation.js';

/** What differs between the topologies. */
export interface Judging {
  /** Two readers of a quorum that are granted at the same time may have the same token. */
  readonly readersMayTie: boolean;
  /** Calls wait in one queue. */
  readonly hasQueue: boolean;
}

/** Judges a history; the violations come in the order of time. */
export function check(history: History, { readersMayTie, hasQueue }: Judging): Violation[] {
  const rules = [
    exclusion,
    fencing(readersMayTie),
    fencedWrites,
    lossTold,
    reentry,
    oneRunPerFire,
    callsSettle,
    noLostWakeUp,
    ...(hasQueue ? [firstInFirstOut] : []),
    recovery,
    nothingLeft,
    noStrayErrors,
  ];
  return rules.flatMap((rule) => rule(history)).sort((a, b) => a.t - b.t);
}
