import { Reflector } from '@nestjs/core';

/** The metadata of the decorators of \@nestjs/schedule. The package is optional, so its names are repeated here. */
const TYPE = 'SCHEDULER_TYPE';
const OPTIONS = {
  cron: 'SCHEDULE_CRON_OPTIONS',
  interval: 'SCHEDULE_INTERVAL_OPTIONS',
  timeout: 'SCHEDULE_TIMEOUT_OPTIONS',
};
const CRON = 1;
const TIMEOUT = 2;
const INTERVAL = 3;

/** The parts of the options of `@Cron` that we use. */
export interface CronOptions {
  /** An expression, a Date, or a DateTime of luxon. */
  readonly cronTime: string | { valueOf(): number };
  readonly name?: string;
  readonly timeZone?: string;
  /** In minutes. */
  readonly utcOffset?: number;
}

export type Schedule =
  | { readonly kind: 'cron'; readonly options: CronOptions }
  /** The delay is in milliseconds. */
  | { readonly kind: 'interval' | 'timeout'; readonly delayMs: number };

const reflector = new Reflector();

/**
 * Finds the function called `name` that has a schedule, on the instance or its prototypes. A decorator above the lock may have
 * replaced the method by one that has the schedule; a spy or instrumentation may have replaced it by one without a schedule.
 */
export function scheduledMethod(self: unknown, name: string | symbol): Function | undefined {
  for (let holder = self as object | null; holder; holder = Object.getPrototypeOf(holder) as object | null) {
    const method: unknown = Object.getOwnPropertyDescriptor(holder, name)?.value;
    if (typeof method === 'function' && hasSchedule(method)) return method;
  }
  return undefined;
}

/** The methods of a class, also those that it inherits: of one name, that of the nearest class. */
export function* methodsOf(prototype: object | null): Generator<readonly [string | symbol, Function]> {
  const seen = new Set<string | symbol>();
  for (let holder = prototype; holder; holder = Object.getPrototypeOf(holder) as object | null) {
    for (const name of Reflect.ownKeys(holder)) {
      const method: unknown = Object.getOwnPropertyDescriptor(holder, name)!.value;
      if (seen.has(name) || typeof method !== 'function') continue;
      seen.add(name);
      yield [name, method];
    }
  }
}

/** Whether a decorator of the schedule is on the method. */
export const hasSchedule = (method: Function): boolean =>
  [CRON, TIMEOUT, INTERVAL].includes(reflector.get<number>(TYPE, method));

/** Returns the schedule of a method. With several decorators the outermost counts, as for the scheduler itself. */
export function scheduleOf(method: Function): Schedule | undefined {
  const type: unknown = reflector.get(TYPE, method);
  if (type === CRON) return { kind: 'cron', options: reflector.get<CronOptions>(OPTIONS.cron, method) };
  if (type === INTERVAL) return { kind: 'interval', delayMs: delayOf(OPTIONS.interval, method) };
  if (type === TIMEOUT) return { kind: 'timeout', delayMs: delayOf(OPTIONS.timeout, method) };
  return undefined;
}

/** The longest delay of a timer of Node. */
const MAX_DELAY_MS = 2 ** 31 - 1;

/** A timer of Node treats an invalid delay, and one that is too long, as 1 ms, and drops fractions. */
function delayOf(key: string, method: Function): number {
  const { timeout } = reflector.get<{ readonly timeout?: unknown }>(key, method);
  const delayMs = Math.trunc(Number(timeout));
  return delayMs >= 1 && delayMs <= MAX_DELAY_MS ? delayMs : 1;
}
