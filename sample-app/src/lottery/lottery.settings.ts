import { wholeNumber } from '../whole-number.js';

// Seconds between two fires. Must divide 60, because `*/n` in a cron expression restarts every minute.
const PERIOD_S = wholeNumber('LOTTERY_PERIOD_S', 3);
if (60 % PERIOD_S !== 0) throw new Error(`Expected LOTTERY_PERIOD_S to be a divisor of 60, got ${PERIOD_S}.`);

/** The period in milliseconds. Every fire is a multiple of it. */
export const PERIOD_MS = PERIOD_S * 1_000;

export const LOTTERY_CRON = `*/${PERIOD_S} * * * * *`;

/** How long the lottery can stay blocked after its holder is killed, in milliseconds: not until after the next fire. */
export const LEASE_MS = wholeNumber('LOTTERY_LEASE_MS', PERIOD_MS - 500);

/** How long a draw takes, in milliseconds. */
export const DRAW_MS = wholeNumber('LOTTERY_DRAW_MS', 500);

/** Runs the lottery without its lock, to show what happens then. Nothing else reads it. */
export const UNLOCKED = process.env['LOTTERY_UNLOCKED'] === '1';

/** Returns the nominal time of the nearest fire: timers are late and clocks differ. */
export const fireAt = (time: number): number => Math.round(time / PERIOD_MS) * PERIOD_MS;
