/**
 * The fire of a scheduled job that an acquisition claims: it is granted once per fire.
 * `at`: the fire of this time, in milliseconds since the epoch; `slot`: the slot of this width in which the store's clock
 * was when the method was called; `gap`: any time that is at least this far from the last fire.
 */
export interface FireClaim {
  /** The job, such as `Reports.noon`: each job has its own fires. A well-formed name of 1 to 128 characters. */
  readonly job: string;
  readonly kind: 'at' | 'slot' | 'gap';
  readonly ms: number;
  /** When the method was called, on the monotonic clock: it may have waited since then for its turn or for `spreadMs`. */
  readonly calledAt: number;
  /** How long the store remembers the fire, in milliseconds. */
  readonly rememberMs: number;
  /** Whether a fire whose run ended without an outcome may be granted again. */
  readonly rerunOnLoss: boolean;
  /** Its run has begun, and its hold is restored: giving the attempt back then does not free the fire. */
  readonly hasBegun?: true;
}

/** The fire for which a hold was granted. */
export interface GrantedFire {
  readonly job: string;
  /** In milliseconds since the epoch; undefined: the store did not return it. */
  readonly ms: number | undefined;
  /** As in the claim. */
  readonly rememberMs: number;
}
