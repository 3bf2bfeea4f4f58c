// Runs models with Quint, in TypeScript alone: no Java, and no download but that of npm.
import { spawn, spawnSync } from 'node:child_process';
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import process from 'node:process';
import { fileURLToPath } from 'node:url';

export const modelFolder = join(dirname(dirname(fileURLToPath(import.meta.url))), 'test', 'model');
const quint = join(modelFolder, 'node_modules', '@informalsystems', 'quint');

/**
 * @typedef {{ samples: number, steps: number, seed: number, invariants: readonly string[], witnesses?: readonly string[] }} Run
 * @typedef {{ samples: number, steps: number, violated: readonly string[], seed?: string, witnessed: readonly number[] }} Result
 */

const isInstalled = () => {
  const file = join(quint, 'package.json');
  const { dependencies } = JSON.parse(readFileSync(join(modelFolder, 'package.json'), 'utf8'));
  return existsSync(file) && JSON.parse(readFileSync(file, 'utf8')).version === dependencies['@informalsystems/quint'];
};

/** Installs Quint in the folder of the models, which has a package.json of its own. */
export function ensureQuint() {
  if (isInstalled()) return;
  console.log('Installing Quint …');
  const flags = ['--no-audit', '--no-fund', '--ignore-scripts', '--loglevel=error'];
  const { status } = spawnSync('npm', ['ci', ...flags], { cwd: modelFolder, stdio: 'inherit' });
  if (status !== 0) throw new Error('Quint could not be installed.');
}

/** Simulates `file`; throws when it is no model, or when Quint fails in another way. @returns {Promise<Result>} */
export async function simulate(file, { samples, steps, seed, invariants, witnesses = [] }) {
  const args = ['--max-samples', samples, '--max-steps', steps, '--seed', `0x${seed.toString(16)}`, '--verbosity', 2];
  const names = ['--invariants', ...invariants, ...(witnesses.length > 0 ? ['--witnesses', ...witnesses] : [])];
  const output = await runQuint([file, ...args, ...names]);
  const verdict = /^\[(ok|violation)\]/m.exec(output);
  if (!verdict) throw new Error(output);
  const counts = [...output.matchAll(/was witnessed in (\d+) trace\(s\) out of (\d+)/g)];
  const average = /average=([\d.]+)/.exec(output);
  return {
    samples,
    steps: Math.round(samples * Number(average?.[1] ?? 0)),
    violated: [...output.matchAll(/❌ (\w+)/g)].map(([, name]) => name),
    seed: verdict[1] === 'violation' ? /--seed=(0x[\da-f]+)/.exec(output)?.[1] : undefined,
    witnessed: counts.map(([, count]) => Number(count)),
  };
}

/** The states of one trace. */
export async function traceOf(file, { steps, seed, invariants }) {
  const folder = mkdtempSync(join(tmpdir(), 'trace-'));
  try {
    const out = join(folder, 'trace.itf.json');
    const args = ['--max-samples', 1, '--max-steps', steps, '--seed', seed, '--verbosity', 0, '--out-itf', out];
    await runQuint([file, ...args, '--invariants', ...invariants]);
    return JSON.parse(readFileSync(out, 'utf8')).states;
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

/** @returns {Promise<string>} all that it prints */
function runQuint(args) {
  const command = [join(quint, 'dist', 'src', 'cli.js'), 'run', '--backend=typescript', ...args.map(String)];
  const child = spawn(process.execPath, command, { stdio: ['ignore', 'pipe', 'pipe'] });
  const output = [];
  for (const stream of [child.stdout, child.stderr]) stream.on('data', (data) => output.push(data));
  return new Promise((resolve, reject) => {
    child.once('error', reject);
    child.once('close', () => resolve(Buffer.concat(output).toString()));
  });
}

/** One line per state with what has changed, for people. */
export function describeTrace(states) {
  let last = {};
  return states.flatMap((state, i) => {
    const fields = Object.entries(state).filter(([name]) => !name.startsWith('#'));
    const shown = Object.fromEntries(fields.map(([name, value]) => [name, textOf(value)]));
    const changes = Object.keys(shown).filter((name) => shown[name] !== last[name]);
    last = shown;
    return [`-- ${i}`, ...changes.map((name) => `   ${name} ${shown[name]}`)];
  });
}

/** A value of the Informal Trace Format. Fields that are 0, false or empty are left out. */
function textOf(value) {
  if (typeof value !== 'object') return String(value);
  if (Array.isArray(value)) return `[${value.map(textOf).join(', ')}]`;
  if ('#bigint' in value) return value['#bigint'];
  if ('#set' in value) return `{${value['#set'].map(textOf).join(', ')}}`;
  if ('#map' in value) return `{${value['#map'].map(([key, one]) => `${textOf(key)}: ${textOf(one)}`).join(', ')}}`;
  const fields = Object.entries(value).map(([name, one]) => [name, textOf(one)]);
  const empty = ['', '0', 'false', '{}', '[]'];
  return `(${fields.flatMap(([name, text]) => (empty.includes(text) ? [] : `${name} ${text}`)).join(', ')})`;
}
