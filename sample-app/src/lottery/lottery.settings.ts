/** The decorators take their options when the class is defined, before there is a ConfigService: hence process.env. */
const wholeNumber = (name: string, otherwise: number): number => {
  const value = Number(process.env[name] ?? otherwise);
  if (Number.isSafeInteger(value) && value > 0) return value;
  throw new Error(`Expected ${name} to be a whole number from 1 and up, got ${process.env[name]}.`);
};

/** How many seconds lie between two fires; a divisor of 60, as a cron expression starts anew every minute. */
const PERIOD_S = wholeNumber('LOTTERY_PERIOD_S', 3);
if (60 % PERIOD_S !== 0) throw new Error(`Expected LOTTERY_PERIOD_S to be a divisor of 60, got ${PERIOD_S}.`);

/** The period in milliseconds, of which all fires are multiples. */
export const PERIOD_MS = PERIOD_S * 1_000;

export const LOTTERY_CRON = `*/${PERIOD_S} * * * * *`;

/** How long a killed winner blocks the lottery at most. */
export const LEASE_MS = wholeNumber('LOTTERY_LEASE_MS', 10_000);

/** How long a draw takes. */
export const DRAW_MS = wholeNumber('LOTTERY_DRAW_MS', 500);

/** Runs the job without its lock, to show what happens then. Never honoured by anything but the lottery. */
export const UNLOCKED = process.env['LOTTERY_UNLOCKED'] === '1';

/** The nominal time of the fire that a moment belongs to: timers are late, clocks differ. */
export const fireAt = (time: number): number => Math.round(time / PERIOD_MS) * PERIOD_MS;
