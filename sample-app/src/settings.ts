const milliseconds = (name: string, fallback: number): number => Number(process.env[name] ?? fallback);

/** What decorators need to know, and so cannot come from the ConfigService: they run when the classes are defined. */
export const settings = {
  /** The period of the lottery in seconds, so that the cron expression and the names of the fires agree. */
  periodMs: milliseconds('LOTTERY_PERIOD_S', 3) * 1_000,
  /** How long Redis grants the lottery; a dead winner frees it after that. */
  leaseMs: milliseconds('LOTTERY_LEASE_MS', 10_000),
  /** How long a draw takes. */
  drawMs: milliseconds('LOTTERY_DRAW_MS', 200),
  /** How long an order or a catalogue entry is worked on. */
  workMs: milliseconds('WORK_MS', 100),
  /** Shows what happens without the lock: every instance draws. Never set it but to see `--fires` fail. */
  unlocked: process.env['LOTTERY_UNLOCKED'] === '1',
} as const;

/** The name of this instance, for people. */
export const instanceName = process.env['INSTANCE'] ?? String(process.pid);
