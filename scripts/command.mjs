// What commands share: how they read their options, run other commands, build the package, and end.
import { spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import process from 'node:process';
import { parseArgs } from 'node:util';
import { readJson, root } from './checks.mjs';

/** Wrong arguments of a command. The text names them, and what was expected. */
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
export const oneOf = (names, byDefault) => {
  return { expected: list(names), read: (value) => names.find((name) => name === value), byDefault };
};

/** A whole number of this range. @returns {Option} */
export const whole = (min, max, byDefault) => {
  const read = (value) => (/^\d+$/.test(value) && value >= min && value <= max ? Number(value) : undefined);
  return { expected: `a whole number from ${min} to ${max}`, read, byDefault };
};

/** A duration. @returns {Option} */
export const positive = (byDefault) => {
  const read = (value) => (/^\d+(\.\d+)?$/.test(value) && value > 0 ? Number(value) : undefined);
  return { expected: 'a number greater than 0', read, byDefault };
};

export const seed = whole(0, 2 ** 31 - 1);

/** A seed for a run without one; short, since users type it. */
export const newSeed = () => Math.floor(Math.random() * 1e6);

/**
 * The values of the options, by their names.
 * @param {Record<string, Option>} options
 * @param {readonly string[]} args
 * @throws {UsageError} for an option that is unknown, or that has a wrong value
 */
export function readOptions(options, args) {
  const all = Object.entries(options);
  const types = Object.fromEntries(all.map(([name, { type = 'string' }]) => [name, { type }]));
  try {
    const { values, positionals } = parseArgs({ args: [...args], options: types, allowPositionals: true });
    const read = all.map(([name, option]) => [name, valueOf(name, option, values[name])]);
    return { values: Object.fromEntries(read), positionals };
  } catch (error) {
    if (error instanceof UsageError) throw error;
    // The sentences after the first one explain the syntax.
    const [what] = error.message.split(/\.\s/);
    throw new UsageError(`${what}: expected ${list(all.map(([name]) => `--${name}`))}.`);
  }
}

function valueOf(name, { read = (one) => one, expected, byDefault }, given) {
  if (given === undefined) return byDefault;
  const value = read(given);
  if (value === undefined) throw new UsageError(`--${name} ${given}: expected ${expected}.`);
  return value;
}

/**
 * Runs a command; it ends with status 1 if its arguments are wrong, and with 0 after --help.
 * @param {{ usage: string, options: Record<string, Option>, takesWords?: boolean }} command
 * @param {(values: Record<string, any>, words: string[]) => unknown} work
 */
export async function runCommand({ usage, options, takesWords = false }, work) {
  try {
    const { values, positionals: words } = readOptions({ ...options, help: flag }, process.argv.slice(2));
    if (values.help) return console.log(usage);
    if (words.length > 0 && !takesWords) throw new UsageError(`${words[0]}: expected options only, such as --help.`);
    await work(values, words);
  } catch (error) {
    if (!(error instanceof UsageError)) throw error;
    console.error(error.message);
    process.exitCode = 1;
  }
}

/** Runs another command to its end. @throws {UsageError} if that fails */
export function mustRun(command, args, options = {}) {
  const { status } = spawnSync(command, args, { cwd: root, stdio: 'inherit', ...options });
  if (status !== 0) throw new UsageError(`${command} ${args[0]} failed.`);
}

/** Installs the packages of a folder with its own package.json, unless they are there in these versions. */
export function ensurePackages(folder) {
  const isThere = ([name, version]) => {
    const file = join(folder, 'node_modules', name, 'package.json');
    // redlock writes `v5.0.0-beta.2` in its own file.
    return existsSync(file) && version.endsWith(readJson(file).version.replace(/^v/, ''));
  };
  if (Object.entries(readJson(folder, 'package.json').dependencies).every(isThere)) return;
  const how = existsSync(join(folder, 'package-lock.json')) ? ['ci'] : ['install', '--no-package-lock'];
  mustRun('npm', [...how, '--no-audit', '--no-fund', '--ignore-scripts', '--loglevel=error'], { cwd: folder });
}

/** Builds the package if that has not been done. */
export function ensureBuilt() {
  if (!existsSync(join(root, 'dist', 'esm', 'index.js'))) mustRun(process.execPath, [join('scripts', 'build.mjs')]);
}
