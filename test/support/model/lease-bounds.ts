/** Bounds of all leases of a lock, as the scripts keep them: each hold widens them, and a look at all holds narrows them. */
export class LeaseBounds {
  /** At most the first end; 0: there are none. */
  due = 0;
  /** At least the last start. */
  seen = 0;
  /** At least the last end. */
  latest = 0;

  /** Whether a lease may have ended, or the clock stepped back. */
  isDue(now: number): boolean {
    return now >= this.due || now < this.seen;
  }

  include({ deadline, lease }: { readonly deadline: number; readonly lease: number }): void {
    if (this.due === 0 || deadline < this.due) this.due = deadline;
    this.seen = Math.max(this.seen, deadline - lease);
    this.latest = Math.max(this.latest, deadline);
  }

  forget(): void {
    this.due = 0;
    this.seen = 0;
    this.latest = 0;
  }
}
