import { appendFileSync } from 'node:fs';
import { setImmediate as turn } from 'node:timers/promises';
import { inspect } from 'node:util';
import { runInThisContext } from 'node:vm';
import * as fc from 'fast-check';

/** Jest gives tests a copy of the process, which hears of no rejections. */
const realProcess = runInThisContext('process') as NodeJS.Process;

const env = process.env;
const SEED = env['FUZZ_SEED'] === undefined ? Date.now() % 1_000_000_007 : Number(env['FUZZ_SEED']);
/** How long each area runs; by default, as many cases as it says. */
const AREA_MS = env['FUZZ_AREA_MS'] === undefined ? undefined : Number(env['FUZZ_AREA_MS']);

/** Some cases of an area: what is generated, and what has to be true of it. */
export interface Part<T> {
  readonly input: fc.Arbitrary<T>;
  /** Throws if the case fails. Returns how many cases it was; by default one. */
  readonly check: (input: T) => Promise<number | void> | number | void;
  readonly runs: number;
}

export const part = <T>(runs: number, input: fc.Arbitrary<T>, check: Part<T>['check']): Part<any> => ({
  runs,
  input,
  check,
});

/** What a run of a part found. */
export interface Finding {
  readonly cases: number;
  /** The smallest input that fails, with the seed; undefined if nothing failed. */
  readonly failure: string | undefined;
}

/** Runs a part, and shrinks what fails. An error that nobody caught fails the case during which it came. */
export async function search<T>({ input, check, runs }: Part<T>, limitMs = AREA_MS): Promise<Finding> {
  let cases = 0;
  const strays = watchStrays();
  const property = fc.asyncProperty(input, async (value) => {
    const count = (await check(value)) ?? 1;
    cases += count;
    await strays.check();
  });
  try {
    const limit = limitMs === undefined ? { numRuns: runs } : { numRuns: 1e9, interruptAfterTimeLimit: limitMs };
    const details = await fc.check(property, { seed: SEED, ...limit, markInterruptAsFailure: false });
    return { cases, failure: details.failed ? reportOf(details) : undefined };
  } finally {
    strays.stop();
  }
}

function reportOf<T>(details: fc.RunDetails<[T]>): string {
  const { errorInstance } = details;
  const text = fc.defaultReportMessage(details) ?? '';
  return `${text.length > 5_000 ? `${text.slice(0, 5_000)}…` : text}\n${inspect(errorInstance, { depth: 2 })}`;
}

/** Runs all parts of an area, and prints how many cases there were. */
export async function fuzz(area: string, parts: readonly Part<any>[]): Promise<void> {
  let total = 0;
  for (const one of parts) {
    const { cases, failure } = await search(one, AREA_MS && AREA_MS / parts.length);
    total += cases;
    if (failure !== undefined) throw new Error(`${failure}\nTo repeat: npm run fuzz -- --area ${area} --seed ${SEED}`);
  }
  report(area, total);
}

function report(area: string, cases: number): void {
  const line = JSON.stringify({ area, cases, seed: SEED });
  if (env['FUZZ_OUT']) appendFileSync(env['FUZZ_OUT'], `${line}\n`);
  else realProcess.stdout.write(`${area}: ${cases} cases, seed ${SEED}\n`);
}

/** Collects the errors that nobody caught. */
function watchStrays() {
  const strays: unknown[] = [];
  const collect = (error: unknown): void => void strays.push(error);
  const events = ['unhandledRejection', 'uncaughtException'] as const;
  for (const event of events) realProcess.on(event, collect);
  const stop = (): void => {
    for (const event of events) realProcess.off(event, collect);
  };
  const check = async (): Promise<void> => {
    // Node reports a rejection once the microtasks are done.
    await turn();
    const [stray] = strays.splice(0);
    if (stray !== undefined) throw new Error('An error was caught by nobody', { cause: stray });
  };
  return { check, stop };
}
