import { Belief } from './belief.js';
import { Exclusion } from './exclusion.js';
import { type Facts } from './facts.js';
import { Order } from './order.js';
import { type Rule } from './rule.js';
import { Settling } from './settling.js';
import { Tokens } from './tokens.js';

/** All rules. */
export const rulesFor = (facts: Facts): readonly Rule[] => [
  new Exclusion(facts),
  new Belief(facts),
  new Tokens(facts),
  new Order(facts),
  new Settling(facts),
];
