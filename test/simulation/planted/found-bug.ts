import { type PlantedBug } from '../library/library.js';

/** A planted bug, the rules that may find it, and how many seeds of which profile they need at most. */
export interface FoundBug extends PlantedBug {
  /** Any other rule is broken by accident, and does not count. */
  readonly rules: readonly string[];
  readonly profile: string;
  readonly seeds: number;
  /** A seed that found it: it is tried first, to save time. */
  readonly foundBy?: number;
}
