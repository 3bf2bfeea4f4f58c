import { appendFileSync } from 'node:fs';
import { setImmediate as turn } from 'node:timers/promises';
import { inspect } from 'node:util';
import { runInThisContext } from 'node:vm';
import * as fc from 'fast-check';
import { LockError } from '../../../lib/index.js';

/** Jest gives tests a copy of the process, which hears of no rejections. */
const realProcess = runInThisContext('process') as NodeJS.Process;
const errors: NodeJS.EventEmitter = realProcess;

const env = process.env;
const SEED = Number(env['FUZZ_SEED'] ?? 1);
/** How long each area runs; by default, for the number of cases that it defines. */
const AREA_MS = env['FUZZ_AREA_MS'] === undefined ? undefined : Number(env['FUZZ_AREA_MS']);

/** The only case to run of each part, by its number. */
const ONLY = env['FUZZ_CASE'];

/** Some cases of an area: what is generated, and what has to be true of it. */
export interface Part<T> {
  readonly input: fc.Arbitrary<T>;
  /** Throws if the case fails. */
  readonly check: (input: T) => Promise<void> | void;
  readonly runs: number;
  /** How many cases run side by side: some spend most of their time waiting. */
  readonly width: number;
  /** Whether an uncaught error comes from elsewhere. */
  readonly isKnown?: ((error: unknown) => boolean) | undefined;
}

export const part = <T>(
  runs: number,
  input: fc.Arbitrary<T>,
  check: Part<T>['check'],
  { width = 1, isKnown }: Partial<Pick<Part<T>, 'width' | 'isKnown'>> = {},
): Part<any> => ({ runs, input, check, width, isKnown });

/** What a run of a part found. */
interface Finding {
  readonly cases: number;
  /** The smallest input that fails, with its seed; undefined if nothing failed. */
  readonly failure: string | undefined;
}

/** The number of cases that are generated at once, from one seed; the next ones are generated from the next seed. */
const BATCH = 5_000;
/** For how long a failing case is shrunk. */
const SHRINK_MS = 60_000;

/**
 * Runs a part, and shrinks what fails. An uncaught error fails the cases during which it came. When the time is
 * over, no case begins, and those that run are waited for: they have servers and timers.
 */
async function search<T>(part: Part<T>, limitMs = AREA_MS): Promise<Finding> {
  if (ONLY !== undefined) return { cases: 1, failure: await runAlone(part, SEED, ONLY) };
  const until = performance.now() + (limitMs ?? Infinity);
  const runs = limitMs === undefined ? part.runs : Infinity;
  let cases = 0;
  for (let seed = SEED; cases < runs && performance.now() < until; seed += 1) {
    const inputs = fc.sample(part.input, { seed, numRuns: Math.min(BATCH, runs - cases) });
    const batch = await runBatch(inputs, part, until);
    cases += batch.cases;
    if (batch.suspects.length > 0) return { cases, failure: await shrink(part, seed, batch) };
  }
  return { cases, failure: undefined };
}

interface Batch {
  readonly cases: number;
  readonly error: unknown;
  /** The cases that failed, or during which an uncaught error came. */
  readonly suspects: readonly number[];
}

/** Runs the cases, some side by side, up to the first failure. */
async function runBatch<T>(inputs: readonly T[], part: Part<T>, until: number): Promise<Batch> {
  const strays = watchStrays(part);
  const running = new Set<number>();
  let failure: Omit<Batch, 'cases'> | undefined;
  let [begun, cases] = [0, 0];
  const work = async (): Promise<void> => {
    while (begun < inputs.length && failure === undefined && performance.now() < until) {
      const index = begun++;
      running.add(index);
      try {
        await part.check(inputs[index]!);
        cases += 1;
      } catch (error) {
        failure ??= { error, suspects: [index] };
      }
      const stray = await strays.next();
      if (stray) failure ??= { error: stray, suspects: [...running] };
      running.delete(index);
    }
  };
  try {
    await Promise.all(Array.from({ length: part.width }, work));
    return { cases, ...(failure ?? { error: undefined, suspects: [] }) };
  } finally {
    strays.stop();
  }
}

/** Runs the suspects again, each alone, until one fails again. */
async function shrink<T>(part: Part<T>, seed: number, { suspects, error }: Batch): Promise<string> {
  for (const suspect of suspects) {
    const failure = await runAlone(part, seed, String(suspect));
    if (failure !== undefined) return failure;
  }
  const [first] = suspects;
  const value = fc.stringify(fc.sample(part.input, { seed, numRuns: first! + 1 })[first!]);
  return `${value}\n${inspect(error, { depth: 2 })}\nIt did not fail again when it ran alone: --seed ${seed} --case ${first}`;
}

/** Runs one case, and finds the smallest input that fails; undefined if nothing fails. */
async function runAlone<T>(part: Part<T>, seed: number, path: string): Promise<string | undefined> {
  const property = fc.asyncProperty(part.input, async (value) => {
    const strays = watchStrays(part);
    try {
      await part.check(value);
      const stray = await strays.next();
      if (stray) throw stray;
    } finally {
      strays.stop();
    }
  });
  const limits = { interruptAfterTimeLimit: SHRINK_MS, markInterruptAsFailure: false };
  const details = await fc.check(property, { seed, path, numRuns: 1, ...limits });
  if (!details.failed) return undefined;
  const text = fc.defaultReportMessage(details) ?? '';
  const shortened = text.length > 5_000 ? `${text.slice(0, 5_000)}…` : text;
  return `${shortened}\n${inspect(details.errorInstance, { depth: 2 })}\nTo repeat: --seed ${seed} --case ${path}`;
}

/** Runs all parts of an area, and prints how many cases there were. */
export async function fuzz(area: string, parts: readonly Part<any>[]): Promise<void> {
  let total = 0;
  for (const one of parts) {
    const { cases, failure } = await search(one, AREA_MS && AREA_MS / parts.length);
    total += cases;
    if (failure !== undefined)
      throw new Error(`${failure}\nTo repeat: node scripts/fuzz.mjs --area ${area} --seed <that seed>`);
  }
  if (total === 0) throw new Error(`No case of ${area} ended within ${AREA_MS} ms`);
  report(area, total);
}

function report(area: string, cases: number): void {
  const line = JSON.stringify({ area, cases, seed: SEED });
  if (env['FUZZ_OUT']) appendFileSync(env['FUZZ_OUT'], `${line}\n`);
  else realProcess.stdout.write(`${area}: ${cases} cases, seed ${SEED}\n`);
}

const EVENTS = ['unhandledRejection', 'uncaughtException'] as const;

/** Collects uncaught errors instead of Jest, which cannot assign them to a case. */
function watchStrays({ isKnown }: Pick<Part<any>, 'isKnown'>) {
  const strays: unknown[] = [];
  const collect = (error: unknown): void => {
    if (!isKnown?.(error)) strays.push(error);
  };
  const others = EVENTS.map((event) => [event, errors.listeners(event)] as const);
  for (const event of EVENTS) errors.removeAllListeners(event).on(event, collect);
  const stop = (): void => {
    for (const [event, listeners] of others) {
      errors.off(event, collect);
      for (const listener of listeners) errors.on(event, listener as () => void);
    }
  };
  const next = async (): Promise<Error | undefined> => {
    // Node reports a rejection once the microtasks are done.
    await turn();
    const [stray] = strays.splice(0);
    return stray === undefined ? undefined : new Error('An error was not caught', { cause: stray });
  };
  return { next, stop };
}

/** Ways to pass the same options; `moody` ones have another value each time they are read. */
const SHAPES = ['plain', 'frozen', 'bare', 'inherited', 'getters', 'hidden', 'symbols', 'moody'] as const;

export type Shape = (typeof SHAPES)[number];

export const anyShape: fc.Arbitrary<Shape> = fc.constantFrom(...SHAPES);

/** An object of that shape, which has these values when it is read for the first time. */
export function shaped(values: ReadonlyMap<string, unknown>, shape: Shape): object {
  const plain = Object.fromEntries(values);
  if (shape === 'plain') return plain;
  if (shape === 'frozen') return Object.freeze(plain);
  if (shape === 'bare') return Object.assign(Object.create(null) as object, plain);
  if (shape === 'inherited') return Object.create(plain) as object;
  if (shape === 'symbols') return { ...plain, [Symbol('odd')]: 1 };
  const descriptors = [...values].map(([name, value]) => [name, descriptorOf(value, shape)] as const);
  return Object.defineProperties({}, Object.fromEntries(descriptors));
}

function descriptorOf(value: unknown, shape: Shape): PropertyDescriptor {
  if (shape === 'hidden') return { value, enumerable: false };
  let reads = 0;
  const moody = (): unknown => ((reads += 1) > 1 ? Number.NaN : value);
  return { get: shape === 'moody' ? moody : () => value, enumerable: true };
}

/** What became of a call. */
export type Outcome = { readonly value: unknown } | { readonly error: unknown };

export async function outcomeOf(call: () => unknown): Promise<Outcome> {
  try {
    return { value: await call() };
  } catch (error) {
    return { error };
  }
}

/** Throws unless an error belongs to this library, with a code and a text. */
export function checkIsTyped(error: unknown): asserts error is LockError {
  if (!(error instanceof LockError)) throw new Error('The error is not a LockError', { cause: error });
  if (!/^LOCK_[A-Z_]+$/.test(error.code)) throw new Error(`The error has the code ${error.code}`, { cause: error });
  if (error.message.length > 2_000) throw new Error(`The text has ${error.message.length} characters`);
}

/** Throws unless a text describes the error: what was expected, or what is unknown, and what was given. */
export function checkSaysWhy({ message }: LockError, name?: string): void {
  if (!/xpected|nknown|cannot|too|contains half|separates|fills nothing|has a lone/.test(message)) {
    throw new Error(`The text does not name what was expected: ${message}`);
  }
  if (name !== undefined && !message.includes(name)) throw new Error(`The text does not name ${name}: ${message}`);
}
