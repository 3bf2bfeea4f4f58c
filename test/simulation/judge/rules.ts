import { Belief } from './belief.js';
import { Calm } from './calm.js';
import { Endings } from './endings.js';
import { Exclusion } from './exclusion.js';
import { type Facts } from './facts.js';
import { Fires } from './fires.js';
import { Grants } from './grants.js';
import { HandOvers } from './hand-overs.js';
import { HoldLimits } from './hold-limits.js';
import { Leaders } from './leaders.js';
import { Leftovers } from './leftovers.js';
import { LocalWaits } from './local-waits.js';
import { LossReports } from './loss-reports.js';
import { Losses } from './losses.js';
import { Moved } from './moved.js';
import { Nesting } from './nesting.js';
import { Operators } from './operators.js';
import { Order } from './order.js';
import { Owners } from './owners.js';
import { QuorumLeftovers } from './quorum-leftovers.js';
import { Recovered } from './recovered.js';
import { type Rule } from './rule.js';
import { Runs } from './runs.js';
import { Siblings } from './siblings.js';
import { Settling } from './settling.js';
import { Tokens } from './tokens.js';
import { Transfers } from './transfers.js';
import { Turns } from './turns.js';
import { WaitLimits } from './wait-limits.js';
import { Waiting } from './waiting.js';

// prettier-ignore
const KINDS = [
  Exclusion, Belief, Tokens, Order, Settling, Waiting, Leftovers, Losses, Fires, Calm, Endings, Grants, HoldLimits,
  HandOvers, LocalWaits, LossReports, Moved, Nesting, Operators, Owners, QuorumLeftovers, Recovered, Runs, Siblings, Leaders, Transfers, Turns, WaitLimits,
];

/** All rules. */
export const rulesFor = (facts: Facts): readonly Rule[] => KINDS.map((Kind) => new Kind(facts));
