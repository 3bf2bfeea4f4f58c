import { UsageError } from '../../../scripts/command.mjs';
import { type Forgets } from '../events.js';
import { type Randoms } from '../worker/random.mjs';

/** One fault, with all that is left to chance decided. */
export interface PlannedFault {
  readonly kind: string;
  /** What it acts upon: faults on one target come one after the other. */
  readonly target: string;
  readonly worker?: string;
  readonly forgets?: Forgets;
  /** How long afterwards no server may forget anything, so that promise 8 holds: a clock was set back. */
  readonly keepsDataMs?: number;
  /** How far it sets the clock of a server back. */
  readonly stepsBackMs?: number;
  /** How long it lasts, at least; the plan leaves that much room. */
  readonly lastsMs: number;
  inflict(): Promise<void>;
}

/** How far a clock steps at most. */
export const LARGEST_STEP_MS = 5_000;

/** A kind of fault on one topology. */
export interface FaultKind {
  readonly name: string;
  plan(random: Randoms): Omit<PlannedFault, 'kind'>;
}

/** Those of the kinds that have one of these names. */
export const named = (kinds: readonly FaultKind[], ...names: readonly string[]): FaultKind[] =>
  kinds.filter(({ name }) => names.includes(name));

/** The kinds that the option `--only` names; all of them without it. */
export function chosen(kinds: readonly FaultKind[], names: readonly string[] | undefined): readonly FaultKind[] {
  if (!names || (names.length === 1 && names[0] === 'none')) return names ? [] : kinds;
  const known = kinds.map(({ name }) => name);
  const unknown = names.find((name) => !known.includes(name));
  if (unknown === undefined) return kinds.filter(({ name }) => names.includes(name));
  throw new UsageError(`--only ${unknown}: expected none, or some of ${known.join(', ')}.`);
}
