// Runs commands, at most two at a time, each within a time limit. None outlives this process.
import { spawn } from 'node:child_process';
import process from 'node:process';

const AT_ONCE = 2;
const KEPT_OUTPUT = 30_000;

const running = new Set();
const queue = [];
let turns = AT_ONCE;

process.on('exit', () => running.forEach(endGroup));

/** Runs a command when it is its turn; resolves to `{ ok, output, seconds }` and never rejects. */
export async function runChild(command, args, { cwd, env, limitMs }) {
  if (turns > 0) turns -= 1;
  else await new Promise((resolve) => queue.push(resolve));
  try {
    return await follow(command, args, { cwd, env, limitMs });
  } finally {
    const next = queue.shift();
    if (next) next();
    else turns += 1;
  }
}

function follow(command, args, { cwd, env, limitMs }) {
  return new Promise((resolve) => {
    const start = performance.now();
    let output = '';
    // A process group of its own, so that the processes it started end with it.
    const child = spawn(command, args, { cwd, env, detached: true, stdio: ['ignore', 'pipe', 'pipe'] });
    running.add(child);
    const keep = (text) => (output = (output + text).slice(-KEPT_OUTPUT));
    child.stdout.on('data', keep);
    child.stderr.on('data', keep);
    const limit = setTimeout(() => {
      keep(`\nIt did not end within ${limitMs / 1000} s.\n`);
      endGroup(child);
    }, limitMs);
    const end = (ok) => {
      clearTimeout(limit);
      endGroup(child);
      running.delete(child);
      resolve({ ok, output, seconds: (performance.now() - start) / 1000 });
    };
    child.once('error', (error) => {
      keep(error.message);
      end(false);
    });
    let late;
    child.once('close', (code) => {
      clearTimeout(late);
      end(code === 0);
    });
    // A process that it started may keep its output open.
    child.once('exit', () => (late = setTimeout(endGroup, 1_000, child)));
  });
}

function endGroup({ pid }) {
  try {
    if (pid) process.kill(-pid, 'SIGKILL');
  } catch {
    // The whole group has ended.
  }
}

/** Variables that npm and Node would read as settings of the child. */
const FOREIGN = /^(npm_(package|lifecycle|command|config_(workspace|local_prefix))|NODE_OPTIONS$|FORCE_COLOR$)/;

/** The environment of this process for a child that has nothing to do with this repository. */
export function plainEnvironment(extra) {
  const entries = Object.entries(process.env).filter(([name]) => !FOREIGN.test(name));
  return { ...Object.fromEntries(entries), NO_COLOR: '1', CI: '1', ...extra };
}
