// What the commands of `npm run` share: how they read their options, build the package, and end.
import { spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { dirname, join } from 'node:path';
import process from 'node:process';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';

const root = dirname(dirname(fileURLToPath(import.meta.url)));

/** Words after a command that it cannot use. The text names them, and says what was expected. */
export class UsageError extends Error {}

const list = (names) => new Intl.ListFormat('en', { type: 'disjunction' }).format(names);

/**
 * How one option is read. `read` returns undefined for a wrong value.
 * @typedef {{ expected?: string, read?: (value: string) => unknown, byDefault?: unknown, type?: 'boolean' }} Option
 */

/** @type {Option} */
export const flag = { type: 'boolean', byDefault: false };
/** @type {Option} */
export const text = {};

/** One of these names. @returns {Option} */
export const oneOf = (names, byDefault) => ({
  expected: list(names),
  read: (value) => (names.includes(value) ? value : undefined),
  byDefault,
});

/** A whole number of this range. @returns {Option} */
export const whole = (min, max, byDefault) => ({
  expected: `a whole number from ${min} to ${max}`,
  read: (value) => (/^\d+$/.test(value) && Number(value) >= min && Number(value) <= max ? Number(value) : undefined),
  byDefault,
});

/** A duration. @returns {Option} */
export const positive = (byDefault) => ({
  expected: 'a number greater than 0',
  read: (value) => (/^\d+(\.\d+)?$/.test(value) && Number(value) > 0 ? Number(value) : undefined),
  byDefault,
});

export const seed = whole(0, 2 ** 31 - 1);

/** A seed for a run that was given none; short, since people type it. */
export const newSeed = () => Math.floor(Math.random() * 1e6);

/**
 * The values of the options, by their names.
 * @param {Record<string, Option>} options
 * @param {readonly string[]} args
 * @throws {UsageError} for an option that is unknown, or that has a wrong value
 */
export function readOptions(options, args) {
  const { values, positionals } = parse(options, args);
  const read = Object.entries(options).map(([name, option]) => [name, valueOf(name, option, values[name])]);
  return { values: Object.fromEntries(read), positionals };
}

function parse(options, args) {
  const types = Object.entries(options).map(([name, { type = 'string' }]) => [name, { type }]);
  try {
    return parseArgs({ args: [...args], options: Object.fromEntries(types), allowPositionals: true });
  } catch (error) {
    // The sentences after the first one explain the syntax.
    const [what] = error.message.split(/\.\s/);
    throw new UsageError(`${what}: expected ${list(Object.keys(options).map((name) => `--${name}`))}.`);
  }
}

function valueOf(name, { type, read = (one) => one, expected, byDefault }, given) {
  if (given === undefined) return byDefault;
  const value = type === 'boolean' ? given : read(given);
  if (value === undefined) throw new UsageError(`--${name} ${given}: expected ${expected}.`);
  return value;
}

/** Refuses words that belong to no option. */
export function refuseWords([first]) {
  if (first !== undefined) throw new UsageError(`${first}: expected options only, such as --help.`);
}

/**
 * Runs a command; it ends with status 1 if its words are wrong, and with 0 after --help.
 * @param {{ usage: string, options: Record<string, Option> }} command
 * @param {(values: Record<string, any>, positionals: string[]) => Promise<void> | void} work
 */
export async function runCommand({ usage, options }, work) {
  try {
    const { values, positionals } = readOptions({ ...options, help: flag }, process.argv.slice(2));
    if (values.help) console.log(usage);
    else await work(values, positionals);
  } catch (error) {
    if (!(error instanceof UsageError)) throw error;
    console.error(error.message);
    process.exitCode = 1;
  }
}

/** Builds the package if that has not been done; ends the command if it cannot be built. */
export function ensureBuilt() {
  if (existsSync(join(root, 'dist', 'esm', 'index.js'))) return;
  const { status } = spawnSync(process.execPath, [join(root, 'scripts', 'build.mjs')], { stdio: 'inherit' });
  if (status !== 0) process.exit(1);
}

/** Has signals end the command by its exit handlers, which end its servers and its workers. */
export function exitOnSignals() {
  process.once('SIGINT', () => process.exit(130));
  process.once('SIGTERM', () => process.exit(143));
}
