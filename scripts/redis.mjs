// Provides a Redis: to tests as a module, and to any command as `node scripts/redis.mjs -- command args…`.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { createServer } from 'node:net';
import { constants as osConstants, tmpdir } from 'node:os';
import { join } from 'node:path';
import process from 'node:process';
import { setTimeout as sleep } from 'node:timers/promises';
import { isStarted } from './checks.mjs';
import { ensureRedisServer } from './programs.mjs';

export { ensureRedisServer };

/**
 * A Redis server that this process started.
 * @typedef {object} StartedRedis
 * @property {string} url
 * @property {number} port
 * @property {number} pid
 * @property {string[]} args The arguments as given; a restart needs them and the `port`.
 * @property {() => Promise<void>} stop Ends the server, even if it is stopped (SIGSTOP), and removes its folder. Does nothing the
 *   second time.
 * @property {(signal?: NodeJS.Signals) => Promise<void>} kill Sends a signal; SIGKILL (the default) and SIGTERM wait until the
 *   server has ended.
 */

const HOST = '127.0.0.1';
const READY_WITHIN_MS = 15_000;
const STOP_WITHIN_MS = 2_000;
const LAUNCHES = 5;
const KEPT_OUTPUT = 16_384;
/** Each worker of Jest takes different ports: a port is free while a test has stopped its server. */
const WORKERS = 8;
const WORKER = Number(process.env.JEST_WORKER_ID ?? 1) % WORKERS;
/** What a server or a sentinel prints when it listens. */
const READY = /Ready to accept connections|Sentinel ID is/;

/** Functions that end the remaining servers when this process ends. */
const running = new Set();
process.on('exit', () => running.forEach((endNow) => endNow()));

/**
 * Returns the Redis of REDIS_URL (`stop` does nothing to it), or starts a server.
 * @returns {Promise<{ url: string, stop: () => Promise<void> }>}
 */
export async function provideRedis() {
  const url = process.env.REDIS_URL;
  return url ? { url, stop: async () => {} } : startRedisServer();
}

/**
 * Starts a server without persistence on the loopback interface; resolves when it listens.
 * @param {object} [options]
 * @param {string[]} [options.args] Arguments of `redis-server`; they override those of this script. The first may be a
 *   configuration file.
 * @param {number} [options.port] Exactly this port, for a restart; by default, a free one.
 * @param {NodeJS.ProcessEnv} [options.env] Further variables of its environment.
 * @returns {Promise<StartedRedis>}
 */
export async function startRedisServer({ args = [], port, env } = {}) {
  const program = ensureRedisServer();
  return withFreshPorts(async () => {
    const { server, ready } = launchServer(program, port ?? (await freePorts(1))[0], args, env);
    try {
      await ready();
      return server;
    } catch (error) {
      await server.stop();
      throw error;
    }
  });
}

/** Launches again if another process took one of the free ports before the server could. */
export async function withFreshPorts(launch) {
  for (let count = 1; ; count++) {
    try {
      return await launch();
    } catch (error) {
      if (count === LAUNCHES || !/in use|another server/i.test(error.message)) throw error;
      await sleep(100);
    }
  }
}

/**
 * Returns different loopback ports that are free now; another process may take one before you use it.
 * @param {number} count
 * @returns {Promise<number[]>}
 */
export async function freePorts(count) {
  const [ports, probes] = [[], []];
  while (ports.length < count) {
    const probe = createServer().listen(0, HOST);
    probes.push(probe);
    await once(probe, 'listening');
    const { port } = probe.address();
    if (Math.floor(port / 2) % WORKERS === WORKER) ports.push(port);
  }
  await Promise.all(probes.map((probe) => once(probe.close(), 'close')));
  return ports;
}

/**
 * Makes a temporary folder that outlives its servers (one may be restarted), but not this process.
 * @returns {{ path: string, remove: () => void }}
 */
export function makeFolder() {
  const path = mkdtempSync(join(tmpdir(), 'nestjs-redis-lock-'));
  const guard = guardOf(path);
  const remove = () => {
    guard.kill('SIGKILL');
    running.delete(remove);
    rmSync(path, { recursive: true, force: true });
  };
  running.add(remove);
  return { path, remove };
}

function launchServer(program, port, args, env) {
  const dir = mkdtempSync(join(tmpdir(), 'nestjs-redis-lock-'));
  // A configuration file must come first.
  const files = args.slice(0, args[0]?.startsWith('-') ? 0 : 1);
  const settings = [...files, '--bind', HOST, '--port', String(port), '--dir', dir, '--save', '', '--appendonly', 'no'];
  // In its own process group, the server does not receive Ctrl-C: the processes that use it must end first.
  const child = spawn(program, [...settings, ...args.slice(files.length)], {
    detached: true,
    stdio: ['ignore', 'pipe', 'pipe'],
    env: { ...process.env, ...env },
  });
  const guard = child.pid && guardOf(dir, child.pid);
  const cleanUp = () => {
    running.delete(endNow);
    guard?.kill('SIGKILL');
    rmSync(dir, { recursive: true, force: true });
  };
  const endNow = () => {
    child.kill('SIGKILL');
    cleanUp();
  };
  running.add(endNow);
  const exit = exitOf(child, cleanUp);
  const kill = async (signal = 'SIGKILL') => {
    child.kill(signal);
    if (signal !== 'SIGKILL' && signal !== 'SIGTERM') return;
    child.ref();
    await exit.promise;
  };
  const stop = async () => {
    if (exit.ended) return;
    // A test may have stopped it with SIGSTOP.
    child.kill('SIGCONT');
    const timer = setTimeout(() => child.kill('SIGKILL'), STOP_WITHIN_MS);
    await kill('SIGTERM');
    clearTimeout(timer);
  };
  const server = { url: `redis://${HOST}:${port}`, port, pid: child.pid, args, stop, kill };
  return { server, ready: () => untilReady(exit) };
}

/**
 * Starts a guard, which ends the server, if any, and removes its folder if this process ends without doing so (SIGKILL, a test
 * runner that hides the exit event). The guard reads from a pipe that closes when this process ends.
 */
function guardOf(dir, pid) {
  const script = `read -r _; ${pid ? `kill -KILL ${pid}; ` : ''}sleep 0.1; rm -rf "$0"`;
  const guard = spawn('sh', ['-c', script, dir], { detached: true, stdio: ['pipe', 'ignore', 'ignore'] });
  guard.on('error', () => {});
  guard.stdin.on('error', () => {});
  guard.stdin.unref();
  guard.unref();
  return guard;
}

/** Follows a child without letting it keep this process alive; returns `{ promise, ended, output }`. */
function exitOf(child, whenEnded) {
  const promise = new Promise((resolve) => {
    let late;
    const end = () => {
      clearTimeout(late);
      if (exit.ended) return;
      exit.ended = true;
      whenEnded();
      resolve();
    };
    child.once('close', end);
    // A process that the server forked (to save, to feed a replica) may keep its output open.
    child.once('exit', () => (late = setTimeout(end, 200)));
    child.once('error', (error) => {
      exit.output += error.message;
      end();
    });
  });
  const exit = { promise, ended: false, output: '' };
  for (const stream of [child.stdout, child.stderr]) {
    stream.on('data', (data) => (exit.output = (exit.output + data).slice(-KEPT_OUTPUT)));
    stream.unref();
  }
  child.unref();
  return exit;
}

async function untilReady(exit) {
  const deadline = Date.now() + READY_WITHIN_MS;
  while (!READY.test(exit.output)) {
    if (exit.ended) throw new Error(`Redis ended instead of starting.\n${exit.output}`);
    if (Date.now() > deadline) throw new Error(`Redis was not ready within ${READY_WITHIN_MS} ms.\n${exit.output}`);
    await sleep(5);
  }
}

/** Runs a command with REDIS_URL set; resolves to its exit code. */
async function runWithRedis([command, ...args]) {
  const redis = await provideRedis();
  const child = spawn(command, args, { stdio: 'inherit', env: { ...process.env, REDIS_URL: redis.url } });
  // When a terminal is closed, a command may get two signals, from the terminal and from here: that does no harm.
  for (const signal of ['SIGTERM', 'SIGHUP']) process.on(signal, () => child.kill(signal));
  // A terminal sends Ctrl-C to the command as well: a second one would interrupt a graceful shutdown.
  const fromTerminal = [process.stdin, process.stdout, process.stderr].some(({ isTTY }) => isTTY);
  process.on('SIGINT', () => fromTerminal || child.kill('SIGINT'));
  const [code, signal] = await once(child, 'exit').catch((error) => {
    console.error(error.message);
    return [127];
  });
  await redis.stop();
  return code ?? 128 + osConstants.signals[signal];
}

if (isStarted(import.meta.url)) {
  const [dashes, ...command] = process.argv.slice(2);
  if (dashes !== '--' || command.length === 0) console.error('Usage: node scripts/redis.mjs -- command args…');
  process.exit(dashes === '--' && command.length > 0 ? await runWithRedis(command) : 2);
}
