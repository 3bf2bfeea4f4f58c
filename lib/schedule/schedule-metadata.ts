import { Reflector } from '@nestjs/core';

/** What the decorators of \@nestjs/schedule leave on a method. The package is optional, so its names are repeated here. */
const TYPE = 'SCHEDULER_TYPE';
const OPTIONS = {
  cron: 'SCHEDULE_CRON_OPTIONS',
  interval: 'SCHEDULE_INTERVAL_OPTIONS',
  timeout: 'SCHEDULE_TIMEOUT_OPTIONS',
};
const CRON = 1;
const TIMEOUT = 2;
const INTERVAL = 3;

/** What is used of the options of `@Cron`. */
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
 * The function with a schedule that is called `name`, from the instance down its prototypes. A decorator above the lock may
 * have put its own one there, with the metadata that came after; a spy, or instrumentation, one without any.
 */
export function scheduledMethod(self: unknown, name: string | symbol): Function | undefined {
  for (let holder = self as object | null; holder; holder = Object.getPrototypeOf(holder) as object | null) {
    const method: unknown = Object.getOwnPropertyDescriptor(holder, name)?.value;
    if (typeof method === 'function' && scheduleOf(method)) return method;
  }
  return undefined;
}

/** The schedule of a method. Of several decorators the outermost counts, as it does for the scheduler. */
export function scheduleOf(method: Function): Schedule | undefined {
  const type: unknown = reflector.get(TYPE, method);
  if (type === CRON) return { kind: 'cron', options: reflector.get<CronOptions>(OPTIONS.cron, method) };
  if (type === INTERVAL) return { kind: 'interval', delayMs: delayOf(OPTIONS.interval, method) };
  if (type === TIMEOUT) return { kind: 'timeout', delayMs: delayOf(OPTIONS.timeout, method) };
  return undefined;
}

/** A timer of Node takes what is no delay for 1 ms, and drops fractions. */
function delayOf(key: string, method: Function): number {
  const { timeout } = reflector.get<{ readonly timeout?: unknown }>(key, method);
  const delayMs = Math.trunc(Number(timeout));
  return Number.isFinite(delayMs) && delayMs >= 1 ? delayMs : 1;
}
