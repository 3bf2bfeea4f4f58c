import { type ChildProcess, fork, spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import type { FireReport } from '../lottery/fire-report.js';

const MAIN = fileURLToPath(new URL('../main.js', import.meta.url));

/** Longer than a shutdown waits for running calls. */
const STOP_WITHIN_MS = 15_000;

/** The instances that the runner starts. */
export const INSTANCE_NAMES = ['A', 'B', 'C'] as const;
export type InstanceName = (typeof INSTANCE_NAMES)[number];

type Message = FireReport | { readonly type: 'ready'; readonly url: string };

export interface InstanceListener {
  onFire(instance: InstanceName, report: FireReport): void;
  /** Called when an instance has ended, for whatever reason. */
  onEnd(instance: InstanceName): void;
  print(line: string): void;
}

/** A running instance. */
export interface RunningInstance {
  readonly process: ChildProcess;
  /** Undefined until it is ready. */
  readonly url: string | undefined;
  /** Whether it was stopped with SIGSTOP. */
  readonly isFrozen: boolean;
}

/** The instances that this process started. None of them outlives `stop`, nor this process. */
export class InstanceGroup {
  readonly #running = new Map<InstanceName, RunningInstance>();
  /** Those that get SIGKILL, and have not ended yet. */
  readonly #killed = new Set<ChildProcess>();
  #stopped: Promise<void> | undefined;

  constructor(
    private readonly env: NodeJS.ProcessEnv,
    private readonly listener: InstanceListener,
  ) {}

  /** The names of the instances that run or start. */
  get living(): InstanceName[] {
    return [...this.#running.keys()];
  }

  /** The names of those that are ready, and are not being killed. */
  get ready(): InstanceName[] {
    const isReady = ({ url, process: child }: RunningInstance): boolean =>
      url !== undefined && !this.#killed.has(child);
    return [...this.#running].flatMap(([name, instance]) => (isReady(instance) ? [name] : []));
  }

  get(name: InstanceName): RunningInstance | undefined {
    return this.#running.get(name);
  }

  /** Starts one instance. Resolves when it is ready; rejects if it ends first. */
  async start(name: InstanceName): Promise<void> {
    if (this.#stopped) throw new Error('The instances are being stopped.');
    const child = fork(MAIN, [], { env: { ...process.env, PORT: '0', ...this.env, INSTANCE: name }, silent: true });
    this.#running.set(name, { process: child, url: undefined, isFrozen: false });
    this.#printOutput(name, child);
    guard(child);
    const onEnd = (how: string): void => {
      this.#killed.delete(child);
      if (this.#running.get(name)?.process !== child) return;
      this.#running.delete(name);
      this.listener.print(`[${name}] ended (${how})`);
      this.listener.onEnd(name);
    };
    child.once('exit', (code, signal) => onEnd(String(signal ?? code)));
    await new Promise<void>((resolve, reject) => {
      child.on('message', (message: Message) => {
        // A message may come after the end.
        if (this.#running.get(name)?.process !== child) return;
        if (message.type === 'fire') return this.listener.onFire(name, message);
        this.#running.set(name, { process: child, url: message.url, isFrozen: false });
        resolve();
      });
      child.once('error', (error) => {
        // A process that failed to start does not have an exit.
        if (child.pid === undefined) onEnd(error.message);
        reject(error);
      });
      child.once('exit', () => reject(new Error(`Instance ${name} ended before it was ready.`)));
    });
  }

  /** Stops an instance where it is, as a machine that sleeps would. */
  freeze(name: InstanceName): void {
    this.#setFrozen(name, true);
  }

  /** Resumes a stopped instance. */
  thaw(name: InstanceName): void {
    this.#setFrozen(name, false);
  }

  /** Ends an instance at once: it releases nothing. */
  kill(name: InstanceName): void {
    const child = this.#running.get(name)?.process;
    if (child?.kill('SIGKILL')) this.#killed.add(child);
  }

  /** Sends SIGTERM to all instances, and kills those that still run after a while. */
  stop(): Promise<void> {
    const all = [...this.#running.values()];
    this.#stopped ??= Promise.all(all.map(({ process: child }) => stopChild(child))).then(() => undefined);
    return this.#stopped;
  }

  #setFrozen(name: InstanceName, isFrozen: boolean): void {
    const instance = this.#running.get(name);
    if (instance?.process.kill(isFrozen ? 'SIGSTOP' : 'SIGCONT')) this.#running.set(name, { ...instance, isFrozen });
  }

  #printOutput(name: string, child: ChildProcess): void {
    this.listener.print(`[${name}] started with the pid ${child.pid}`);
    for (const input of [child.stdout!, child.stderr!]) {
      createInterface({ input }).on('line', (line) => this.listener.print(`[${name}] ${line}`));
    }
  }
}

async function stopChild(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const ended = once(child, 'exit');
  const timer = setTimeout(() => child.kill('SIGKILL'), STOP_WITHIN_MS);
  child.kill('SIGTERM');
  // It may be frozen.
  child.kill('SIGCONT');
  await ended;
  clearTimeout(timer);
}

/**
 * An instance ends by itself when this process has ended, but a frozen one does not: a shell, whose input ends with this process,
 * resumes it, and kills it if it still runs after a while.
 */
function guard(child: ChildProcess): void {
  if (child.pid === undefined) return;
  const within = STOP_WITHIN_MS / 1_000;
  const script = `read -r _; kill -CONT "$0"; for _ in $(seq ${within}); do sleep 1; kill -0 "$0" || exit; done; kill -KILL "$0"`;
  const stdio = ['pipe', 'ignore', 'ignore'] as const;
  const shell = spawn('sh', ['-c', script, String(child.pid)], { detached: true, stdio: [...stdio] });
  for (const part of [shell, shell.stdin]) part.on('error', () => undefined);
  shell.unref();
  child.once('exit', () => shell.kill('SIGKILL'));
}
