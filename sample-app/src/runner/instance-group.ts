import { type ChildProcess, fork } from 'node:child_process';
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

/** The instances that this process started. None of them outlives `stop`. */
export class InstanceGroup {
  readonly #running = new Map<InstanceName, RunningInstance>();
  #stopped: Promise<void> | undefined;

  constructor(
    private readonly env: NodeJS.ProcessEnv,
    private readonly listener: InstanceListener,
  ) {}

  /** The names of the running instances. */
  get living(): InstanceName[] {
    return [...this.#running.keys()];
  }

  get(name: InstanceName): RunningInstance | undefined {
    return this.#running.get(name);
  }

  /** Starts one instance. Resolves when it is ready; rejects if it ends first. */
  async start(name: InstanceName): Promise<void> {
    const child = fork(MAIN, [], { env: { ...process.env, ...this.env, INSTANCE: name }, silent: true });
    this.#running.set(name, { process: child, url: undefined, isFrozen: false });
    this.#printOutput(name, child);
    child.once('exit', (code, signal) => {
      this.#running.delete(name);
      this.listener.print(`[${name}] ended (${signal ?? code})`);
      this.listener.onEnd(name);
    });
    await new Promise<void>((resolve, reject) => {
      child.on('message', (message: Message) => {
        if (message.type === 'fire') return this.listener.onFire(name, message);
        this.#running.set(name, { process: child, url: message.url, isFrozen: false });
        resolve();
      });
      child.once('error', reject);
      child.once('exit', () => reject(new Error(`Instance ${name} ended before it was ready.`)));
    });
  }

  /** Stops an instance where it is, as a machine that sleeps would. */
  freeze(name: InstanceName): void {
    this.#setFrozen(name, true);
  }

  /** Lets a stopped instance go on. */
  thaw(name: InstanceName): void {
    this.#setFrozen(name, false);
  }

  /** Ends an instance at once: it releases nothing. */
  kill(name: InstanceName): void {
    this.#running.get(name)?.process.kill('SIGKILL');
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
  const ended = once(child, 'exit');
  const timer = setTimeout(() => child.kill('SIGKILL'), STOP_WITHIN_MS);
  child.kill('SIGTERM');
  // It may be frozen.
  child.kill('SIGCONT');
  await ended;
  clearTimeout(timer);
}
