// What this process uses. Needs --expose-gc.
import { readdirSync, readlinkSync } from 'node:fs';
import { setImmediate as turn } from 'node:timers/promises';
import process from 'node:process';
import v8 from 'node:v8';

const MB = 2 ** 20;
const Timeout = setTimeout(() => undefined, 0).constructor;

/** Also counts what does not keep the process alive, such as a timer without a reference, by looking into the heap. */
export async function usage() {
  // What the first collection finalizes is freed by the second.
  for (let i = 0; i < 2; i += 1) {
    globalThis.gc();
    await turn();
  }
  const { heapUsed, rss, external } = process.memoryUsage();
  // Each takes a quarter of a second, in which the process stands still.
  const objects = Object.entries({ timers: Timeout, 'abort signals': AbortSignal });
  return {
    heap: heapUsed / MB,
    external: external / MB,
    rss: rss / MB,
    ...Object.fromEntries(objects.map(([name, type]) => [name, v8.queryObjects(type, { format: 'count' })])),
    ...openFiles(),
    ...resources(),
  };
}

function openFiles() {
  const targets = readdirSync('/proc/self/fd').map((fd) => {
    try {
      return readlinkSync(`/proc/self/fd/${fd}`);
    } catch {
      // The folder that was read.
      return '';
    }
  });
  const sockets = targets.filter((target) => target.startsWith('socket:')).length;
  return { fds: targets.filter((target) => target !== '').length, sockets };
}

/** Handles, requests and timers that keep the process alive, by kind. */
function resources() {
  const counts = {};
  for (const kind of process.getActiveResourcesInfo()) counts[`kind ${kind}`] = (counts[`kind ${kind}`] ?? 0) + 1;
  return counts;
}
