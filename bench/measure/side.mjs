// One candidate in a process of its own, as its parent sees it.
import { fork } from 'node:child_process';
import process from 'node:process';
import { fileURLToPath } from 'node:url';

const child = fileURLToPath(new URL('child.mjs', import.meta.url));

const running = new Set();
process.on('exit', () => running.forEach((one) => one.kill('SIGKILL')));

/** Starts a process that has opened a candidate; `run` has it do a task of tasks.mjs. */
export async function startSide(name, options) {
  const side = fork(child, { execArgv: ['--expose-gc'], stdio: ['ignore', 'inherit', 'inherit', 'ipc'] });
  running.add(side);
  const waiting = new Map();
  let last = 0;
  side.on('message', ({ id, result, error }) => {
    const { resolve, reject } = waiting.get(id);
    waiting.delete(id);
    if (error) reject(new Error(`${name}: ${error}`));
    else resolve(result);
  });
  side.on('exit', (code, signal) => {
    running.delete(side);
    for (const { reject } of waiting.values())
      reject(new Error(`The process of ${name} has ended: ${signal ?? code}.`));
  });
  const run = (task, args = {}) =>
    new Promise((resolve, reject) => {
      const id = ++last;
      waiting.set(id, { resolve, reject });
      side.send({ id, task, args });
    });
  await run('open', { name, options });
  return {
    name,
    run,
    async end() {
      await run('close').catch(() => {});
      side.kill('SIGKILL');
    },
  };
}
