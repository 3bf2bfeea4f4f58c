import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import type { FireReport } from '../lottery/fire-report.js';

const MAIN = fileURLToPath(new URL('../main.js', import.meta.url));

/** Longer than a shutdown waits for running calls. */
const STOP_WITHIN_MS = 15_000;

type Message = FireReport | { readonly type: 'ready'; readonly url: string };

export interface InstanceListener {
  onFire(instance: string, report: FireReport): void;
  /** Called when an instance has ended, for whatever reason. */
  onEnd(instance: string): void;
  print(line: string): void;
}

/** The instances that this process started. None of them outlives `stop`. */
export class InstanceGroup {
  readonly #living = new Map<string, ChildProcess>();
  #stopped: Promise<void> | undefined;

  constructor(private readonly listener: InstanceListener) {}

  get living(): string[] {
    return [...this.#living.keys()];
  }

  /** Starts one instance. Resolves when it is ready; rejects if it ends first. */
  async start(name: string, env: NodeJS.ProcessEnv): Promise<void> {
    const child = fork(MAIN, [], { env: { ...process.env, ...env, INSTANCE: name }, silent: true });
    this.#living.set(name, child);
    this.#printOutput(name, child);
    child.once('exit', (code, signal) => {
      this.#living.delete(name);
      this.listener.print(`[${name}] ended (${signal ?? code})`);
      this.listener.onEnd(name);
    });
    await new Promise<void>((resolve, reject) => {
      child.on('message', (message: Message) => {
        if (message.type === 'ready') resolve();
        else this.listener.onFire(name, message);
      });
      child.once('error', reject);
      child.once('exit', () => reject(new Error(`Instance ${name} ended before it was ready.`)));
    });
  }

  /** Sends SIGTERM to all instances, and kills those that still run after a while. */
  stop(): Promise<void> {
    this.#stopped ??= Promise.all([...this.#living.values()].map(stopChild)).then(() => undefined);
    return this.#stopped;
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
  await ended;
  clearTimeout(timer);
}
