import { Belief, LossReports, Losses, Nesting, Siblings } from './beliefs.js';
import { Calm, Moved, Recovered } from './calm.js';
import { type Facts } from './facts.js';
import { Exclusion, Grants, Operators, Order, Owners, Tokens } from './grants.js';
import { HandOvers, LocalWaits } from './hand-overs.js';
import { HoldLimits } from './hold-limits.js';
import { Fires, Runs } from './jobs.js';
import { Leaders } from './leaders.js';
import { Endings, Leftovers, QuorumLeftovers } from './leftovers.js';
import { type Rule } from './rule.js';
import { Transfers } from './transfers.js';
import { Settling, Turns, WaitLimits, Waiting } from './waits.js';

// prettier-ignore
const KINDS = [
  Exclusion, Belief, Tokens, Order, Settling, Waiting, Leftovers, Losses, Fires, Calm, Endings, Grants, HoldLimits,
  HandOvers, LocalWaits, LossReports, Moved, Nesting, Operators, Owners, QuorumLeftovers, Recovered, Runs, Siblings, Leaders, Transfers, Turns, WaitLimits,
];

/** All rules. */
export const rulesFor = (facts: Facts): readonly Rule[] => KINDS.map((Kind) => new Kind(facts));
