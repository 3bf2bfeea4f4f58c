/** The rules, each named after its promise in docs/guarantees.md; `nothing-tested`: the run is worth nothing. */
type RuleName =
  | 'exclusion'
  | 'permits'
  | 'fencing'
  | 'fenced-writes'
  | 'loss-told'
  | 'reentry'
  | 'one-run-per-fire'
  | 'calls-settle'
  | 'no-lost-wake-up'
  | 'first-in-first-out'
  | 'transfers'
  | 'leaders'
  | 'recovery'
  | 'nothing-left'
  | 'no-stray-errors'
  | 'nothing-tested';

/** A rule that a history breaks, and when. */
export interface Violation {
  readonly rule: RuleName;
  readonly t: number;
  readonly text: string;
}
