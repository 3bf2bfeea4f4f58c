// The models of `node scripts/model.mjs` (scripts/model.mjs).
import { HAND_OVER_MUTANTS } from './hand-over-mutants.mjs';
import { LOCK_MUTANTS } from './lock-mutants.mjs';
import { QUORUM_MUTANTS } from './quorum-mutants.mjs';

/**
 * A model without one of its rules: `find` is replaced. An invariant must be violated within `samples` (MUTANT_SAMPLES if
 * there is no such number) traces from seed MUTANT_SEED, so it is found each time or never.
 * @typedef {{ name: string, find: string, replace: string, samples?: number }} Mutant
 * @typedef {readonly [name: string, find: string, replace: string, samples?: number]} Row
 */

/**
 * `steps`: the length of a trace. Each of `witnesses` must come true in some trace of REACH: otherwise traces do not get far
 * enough to prove anything.
 * @typedef {{ name: string, steps: number, invariants: readonly string[], witnesses: readonly string[],
 *   mutants: readonly Mutant[] }} Model
 */

export const MUTANT_SAMPLES = 1_000;
export const MUTANT_SEED = 7;
/** In the simulated runs of this seed, each rule of lock.qnt makes a difference. */
export const RUNS_SEED = 5;
/** The traces in which each witness must come true. */
export const REACH = { samples: 500, seed: 5 };

/** @type {(rows: readonly Row[]) => readonly Mutant[]} */
const mutantsOf = (rows) => rows.map(([name, find, replace, samples]) => ({ name, find, replace, samples }));

/** The code is compared with it: its mutants have to differ from what simulated servers do. @type {Model} */
export const LOCK = {
  name: 'lock',
  steps: 60,
  invariants: ['exclusion', 'tokensDiffer', 'tokensRise', 'endedIsOver', 'noLostWakeUp'],
  witnesses: ['hasReaders', 'isBusy', 'isPassedOver', 'isRevoked'],
  mutants: mutantsOf(LOCK_MUTANTS),
};

/** @type {readonly Model[]} */
export const MODELS = [
  {
    name: 'quorum',
    steps: 80,
    invariants: ['exclusion', 'lossIsTold', 'noHoldForNobody', 'tokensRise'],
    witnesses: ['secondHold', 'isExpired', 'isForgotten', 'isLate', 'isWrittenBack', 'isRestored', 'isRenewedLong'],
    mutants: mutantsOf(QUORUM_MUTANTS),
  },
  {
    name: 'hand-over',
    steps: 60,
    // prettier-ignore
    invariants: [
      'exclusion', 'lossIsTold', 'noHoldForNobody', 'noDeadlock', 'noLostWakeUp', 'tokensRise', 'firstInFirstOut',
      'nextTokenIsGreater', 'oneAsks', 'noLossIsHidden', 'endedCallsSettle', 'turnsEnd', 'enoughIsLeft', 'noCommandIsLeft',
    ],
    // prettier-ignore
    witnesses: [
      'secondHold', 'isPushed', 'isRenewed', 'isExpired', 'isLate', 'isRefused', 'isMoved', 'isDead', 'isWithoutTurns',
      'isHandedOn', 'isHandedOnTwice', 'isPushedAndHandedOn', 'areTokensUsedUp', 'isTurnOver', 'isUnknownInTurn',
      'isHandedOnRenewed', 'isLostInTurn', 'isProvenInTurn', 'isLostForEarlier', 'isNearlyOver', 'isExpiredInTurn', 'isSucceeded', 'asksAhead',
    ],
    mutants: mutantsOf(HAND_OVER_MUTANTS),
  },
  LOCK,
];
