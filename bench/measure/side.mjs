// One candidate in its own process, as its parent sees it.
import { fork } from 'node:child_process';
import { once } from 'node:events';
import process from 'node:process';
import { fileURLToPath } from 'node:url';

const child = fileURLToPath(new URL('child.mjs', import.meta.url));

/** A task that exceeds its time by this has failed: the candidate hangs. */
const SLACK_MS = 60_000;
const CLOSED_WITHIN_MS = 2_000;

const running = new Set();
process.on('exit', () => running.forEach((one) => one.kill('SIGKILL')));

/**
 * Starts a process that has opened a candidate; `run` has it do a task of tasks.mjs.
 * @param {string} name
 * @param {object} options
 */
export async function startSide(name, options) {
  const side = fork(child, { execArgv: ['--expose-gc'], stdio: ['ignore', 'inherit', 'inherit', 'ipc'] });
  running.add(side);
  const waiting = new Map();
  let last = 0;
  side.on('message', ({ id, result, error }) => {
    if (error) waiting.get(id)?.reject(new Error(`${name}: ${error}`));
    else waiting.get(id)?.resolve(result);
    waiting.delete(id);
  });
  side.on('exit', (code, signal) => {
    running.delete(side);
    for (const { reject } of waiting.values()) reject(new Error(`${name}: its process has ended: ${signal ?? code}.`));
  });
  const run = (task, args = {}) => {
    const id = ++last;
    const limitMs = (args.ms ?? 0) + SLACK_MS;
    let timer;
    const answer = new Promise((resolve, reject) => {
      waiting.set(id, { resolve, reject });
      timer = setTimeout(() => reject(new Error(`${name}: ${task} took more than ${limitMs} ms.`)), limitMs);
      side.send({ id, task, args });
    });
    return answer.finally(() => clearTimeout(timer));
  };
  const end = async () => {
    if (!running.has(side)) return;
    const gone = once(side, 'exit');
    const impatience = setTimeout(() => side.kill('SIGKILL'), CLOSED_WITHIN_MS);
    await run('close').catch(() => {});
    clearTimeout(impatience);
    side.kill('SIGKILL');
    await gone;
  };
  try {
    await run('open', { name, options });
  } catch (error) {
    side.kill('SIGKILL');
    throw error;
  }
  return { name, pid: side.pid, run, end };
}
