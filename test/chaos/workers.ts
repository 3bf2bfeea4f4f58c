import { type ChildProcess, fork } from 'node:child_process';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { type Deed } from '../checker/events.js';
import { type Recorder } from './recorder.js';
import { type Resource, type ResourceRequest } from '../checker/registers.js';

const READY_WITHIN_MS = 30_000;
/** The longest wait (6 s), the longest work (2.5 s), and the releases of both, on a busy machine. */
const END_WITHIN_MS = 20_000;

export interface WorkerSettings {
  readonly client: string;
  readonly workload: string;
  readonly lanes: number;
  readonly minReplicas: number;
  /** How long after the end of the app its client may keep sockets and timers. */
  readonly lingersMs: number;
  readonly pauseMs: number;
  /** What it does in addition to the calls of its lanes. */
  readonly does: readonly Deed[];
  readonly seed: number;
  /** How long unused locks are remembered. */
  readonly keepMs?: number;
  /** Options of Node. */
  readonly execArgv?: readonly string[];
  /** For soaks (worker/soak): further lanes, and measurements. */
  readonly soak?: { readonly plant: string | undefined };
}

/** A lock that was transferred (worker/transfers.mjs). */
export type Parcel = object;

/** A worker: a process that is started again whenever it ends. */
export class Worker {
  #child!: ChildProcess;
  #gone!: Promise<void>;
  #processes = 0;
  #isEnding = false;

  constructor(
    readonly name: string,
    private readonly connection: unknown,
    private readonly settings: WorkerSettings,
    private readonly recorder: Recorder,
    private readonly resource: Resource,
    /** The receiver of what it sends to another worker. */
    private readonly passOn: (parcel: Parcel) => void,
  ) {}

  get processName(): string {
    return `${this.name}.${this.#processes}`;
  }

  /** Starts a process; resolves when it makes calls. */
  async start(): Promise<void> {
    this.#processes += 1;
    const name = this.processName;
    const config = {
      ...this.settings,
      seed: this.settings.seed * 1_000 + this.#processes,
      connection: this.connection,
      file: this.recorder.fileOf(this.name),
      name,
    };
    const child = fork(join(import.meta.dirname, 'worker', 'worker.mjs'), [JSON.stringify(config)], {
      execArgv: [...(this.settings.execArgv ?? [])],
    });
    this.#child = child;
    const ready = new Promise<void>((resolve) => {
      child.on('message', (message: ResourceRequest & { question?: number; ready?: true; parcel?: Parcel }) => {
        if (message.ready) resolve();
        if (message.parcel) this.passOn(message.parcel);
        if (message.question !== undefined) this.#answer(child, message.question, message);
      });
    });
    this.#gone = new Promise((resolve) => {
      child.once('exit', (code, signal) => {
        this.recorder.note({ e: 'exit', of: name, code, signal });
        resolve();
      });
    });
    await Promise.race([ready, this.#gone, sleep(READY_WITHIN_MS, undefined, { ref: false })]);
  }

  suspend(): void {
    this.recorder.note({ e: 'suspended', of: this.processName });
    this.#child.kill('SIGSTOP');
  }

  resume(): void {
    this.#child.kill('SIGCONT');
    this.recorder.note({ e: 'resumed', of: this.processName });
  }

  /** Its app has no chance to release anything. */
  async killAndRestart(): Promise<void> {
    this.#child.kill('SIGKILL');
    await this.#gone;
    if (!this.#isEnding) await this.start();
  }

  /** Its app is closed while its calls wait and hold. */
  async closeAndRestart(): Promise<void> {
    this.#tell({ close: true });
    await this.#ended();
    if (!this.#isEnding) await this.start();
  }

  /** Lets its calls end, begins no others, and resolves to what the process then uses; undefined if it has ended, or a call still runs. */
  async restAndMeasure(): Promise<Record<string, number> | undefined> {
    const child = this.#child;
    const usage = new Promise<Record<string, number>>((resolve) => {
      const listen = (message: { usage?: Record<string, number> }): void => {
        if (!message.usage) return;
        child.off('message', listen);
        resolve(message.usage);
      };
      child.on('message', listen);
    });
    this.#tell({ rest: true });
    // A call that never ends is found by the checker, not by waiting for it.
    const stuck = sleep(END_WITHIN_MS, undefined, { ref: false });
    return Promise.race([usage, stuck, this.#gone.then(() => undefined)]);
  }

  goOn(): void {
    this.#tell({ goOn: true });
  }

  block(ms: number): void {
    this.#tell({ blockMs: ms });
  }

  receive(parcel: Parcel): void {
    this.#tell({ parcel });
  }

  /** Lets it end its calls, then itself. */
  async end(): Promise<void> {
    this.#isEnding = true;
    this.#tell({ stop: true });
    await this.#ended();
  }

  killNow(): void {
    this.#isEnding = true;
    this.#child?.kill('SIGKILL');
  }

  async #ended(): Promise<void> {
    const stuck = sleep(END_WITHIN_MS, true, { ref: false });
    if (!(await Promise.race([this.#gone, stuck]))) return;
    this.recorder.note({ e: 'stuck', of: this.processName });
    this.#child.kill('SIGKILL');
    await this.#gone;
  }

  #answer(child: ChildProcess, question: number, request: ResourceRequest): void {
    this.#send(child, { answer: question, ...this.resource.answer(request) });
  }

  #tell(message: object): void {
    this.#send(this.#child, message);
  }

  /** A process that has just been killed takes no messages. */
  #send(child: ChildProcess, message: object): void {
    if (child.connected) child.send(message, () => undefined);
  }
}
