import { setTimeout as sleep } from 'node:timers/promises';

export interface EventuallyOptions {
  /** When to give up, in ms. @default 10_000 */
  timeoutMs?: number;
  /** The pause between two attempts, in ms. @default 10 */
  intervalMs?: number;
  /** What was waited for, for the error. */
  message?: string;
}

type Truthy<T> = Exclude<T, false | 0 | 0n | '' | null | undefined>;
const isTruthy = <T>(value: T): value is Truthy<T> => Boolean(value);

type IsAny<T> = 0 extends 1 & T ? true : false;

/** A condition that returns nothing would never be met. */
type NotVoid<T> = [T] extends [void]
  ? IsAny<T> extends true
    ? unknown
    : 'use eventuallyPasses() for assertions'
  : unknown;

/**
 * Waits until the condition is truthy, and resolves with its value. On time-out, even of a condition that hangs, it
 * rejects with what the condition threw last, or an error that shows what it returned last.
 */
export async function eventually<T>(
  condition: (() => T | Promise<T>) & NotVoid<T>,
  { timeoutMs = 10_000, intervalMs = 10, message = 'The condition was not met' }: EventuallyOptions = {},
): Promise<Truthy<T>> {
  const deadline = performance.now() + timeoutMs;
  let last = (): unknown => new Error(`${message} within ${timeoutMs} ms: it did not answer.`);
  while (performance.now() < deadline) {
    try {
      const value = await orUntil(deadline, condition, last);
      if (isTruthy(value)) return value;
      last = () => new Error(`${message} within ${timeoutMs} ms: it gave ${String(value)}.`);
    } catch (error) {
      last = () => error;
    }
    await sleep(intervalMs);
  }
  throw last();
}

/** Waits until the assertions pass. */
export async function eventuallyPasses(assertions: () => unknown, options: EventuallyOptions = {}): Promise<void> {
  await eventually(async () => {
    await assertions();
    return true;
  }, options);
}

async function orUntil<T>(deadline: number, condition: () => T | Promise<T>, late: () => unknown): Promise<T> {
  let timer: NodeJS.Timeout | undefined;
  const timeout = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(late()), deadline - performance.now());
  });
  try {
    return await Promise.race([condition(), timeout]);
  } finally {
    clearTimeout(timer);
  }
}
