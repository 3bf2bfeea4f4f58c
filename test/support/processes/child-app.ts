import { type ChildProcess, execFileSync, fork } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdirSync, rmdirSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type LockOptions, type RedisLockModuleOptions } from '../../../lib/index.js';
import { eventually } from '../waiting/eventually.js';
import { closeLater } from '../apps/lock-app.js';
import { LIBRARY } from '../clients/library.js';
import { topology } from '../topologies/topology.js';

const root = process.cwd();
const packageIsBuilt = (): boolean => existsSync(join(root, 'dist', 'esm', 'index.js'));

/** Builds the package if dist is missing; concurrent test files build it once. */
export async function buildPackage(): Promise<void> {
  if (packageIsBuilt()) return;
  const turn = join(tmpdir(), `nestjs-redis-lock-build-${process.ppid}`);
  const takeTurn = () => mkdirSync(turn, { recursive: true }) !== undefined;
  await eventually(takeTurn, { timeoutMs: 60_000, intervalMs: 100, message: 'Another test file still builds' });
  try {
    if (!packageIsBuilt()) execFileSync(process.execPath, [join(root, 'scripts', 'build.mjs')], { cwd: root });
  } finally {
    rmdirSync(turn);
  }
}

/** For a process or a thread that opens its connections by the library of the project. */
export const withLibrary =
  LIBRARY === 'ioredis'
    ? { execArgv: [] }
    : {
        execArgv: ['--require', join(import.meta.dirname, 'only-library.cjs')],
        env: { ...process.env, LIBRARY },
      };

/** Runs a script of this folder in a child process, which is killed with the test. */
export function forkScript(script: string, argument: string) {
  const child = fork(join(import.meta.dirname, script), [argument], withLibrary);
  const gone = once(child, 'exit') as Promise<[number | null, NodeJS.Signals | null]>;
  closeLater({
    close: async () => {
      child.kill('SIGKILL');
      await gone;
    },
  });
  return { child, gone };
}

interface Answer {
  readonly id: number;
  readonly value?: unknown;
  readonly error?: string;
}

/** An instance of an app that can be killed. */
export interface ChildApp {
  readonly process: ChildProcess;
  /** Resolves with the fencing token. */
  acquire(key: string, options?: LockOptions): Promise<number>;
  tryAcquire(key: string, options?: LockOptions): Promise<number | null>;
  /** Resolves with the text by which another process adopts the lock. */
  transfer(): Promise<string>;
  /** Resolves with the fencing token. */
  adopt(text: string, options?: Pick<LockOptions, 'leaseMs' | 'maxHoldMs' | 'renew'>): Promise<number>;
  /** Resolves with the reason when the lock is lost. */
  lost(): Promise<string>;
  isHeld(): Promise<boolean>;
  release(): Promise<void>;
  /** Closes the app and lets the process end by itself. Resolves with the timers and sockets that are left. */
  close(): Promise<string[]>;
  /** Sends SIGKILL: the app has no chance to release anything. */
  kill(): Promise<void>;
}

/** Starts an app in a process; `skewMs` is how wrong its clock is. */
export async function startChildApp(options: RedisLockModuleOptions = {}, skewMs = 0): Promise<ChildApp> {
  await buildPackage();
  const argument = JSON.stringify({ options: { connection: topology.connection, drainMs: 500, ...options }, skewMs });
  const child = fork(join(import.meta.dirname, 'lock-process.mjs'), [argument], {
    ...withLibrary,
    serialization: 'advanced',
  });
  const kill = async () => {
    if (child.exitCode !== null || child.signalCode !== null) return;
    const gone = once(child, 'exit');
    child.kill('SIGKILL');
    await gone;
  };
  closeLater({ close: kill });
  let orders = 0;
  const answer = new Map<number, (message: Answer) => void>();
  const ready = new Promise((resolve) => answer.set(0, resolve));
  child.on('message', (message: Answer) => answer.get(message.id)?.(message));
  const order = <T>(name: string, ...args: unknown[]): Promise<T> =>
    new Promise((resolve, reject) => {
      orders += 1;
      answer.set(orders, ({ value, error }) => (error === undefined ? resolve(value as T) : reject(new Error(error))));
      child.send({ id: orders, order: name, args });
    });
  await ready;
  return {
    process: child,
    acquire: (key, lockOptions) => order('acquire', key, lockOptions),
    tryAcquire: (key, lockOptions) => order('tryAcquire', key, lockOptions),
    transfer: () => order('transfer'),
    adopt: (text, adoptOptions) => order('adopt', text, adoptOptions),
    lost: () => order('lost'),
    isHeld: () => order('isHeld'),
    release: () => order('release'),
    close: () => order('close'),
    kill,
  };
}
