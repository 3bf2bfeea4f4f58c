/** A waiter that dies blocks others for at most this long, and not longer than a holder would. */
export const waiterLeaseMs = (leaseMs: number): number => Math.max(500, Math.min(leaseMs, 6_000));

/** How long one command for a lock of this lease may take before it is sent again. */
export const commandTimeoutMs = (leaseMs: number): number => Math.min(Math.max(leaseMs / 4, 100), 5_000);
