import { Belief } from './belief.js';
import { Calm } from './calm.js';
import { Exclusion } from './exclusion.js';
import { type Facts } from './facts.js';
import { Fires } from './fires.js';
import { Leftovers } from './leftovers.js';
import { Losses } from './losses.js';
import { Order } from './order.js';
import { type Rule } from './rule.js';
import { Siblings } from './siblings.js';
import { Settling } from './settling.js';
import { Tokens } from './tokens.js';
import { Waiting } from './waiting.js';

/** All rules. */
export const rulesFor = (facts: Facts): readonly Rule[] =>
  [Exclusion, Belief, Tokens, Order, Settling, Waiting, Leftovers, Losses, Fires, Siblings, Calm].map(
    (Kind) => new Kind(facts),
  );
