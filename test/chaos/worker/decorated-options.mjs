/** What the decorators of ./clients/decorated.mjs say, and so what their calls ask for. */
export const DECORATED_OPTIONS = { leaseMs: 1_000, waitMs: 3_000 };
