import { type StoreHold } from '../../../lib/core/hold/store-hold.js';
import { type LockLostReason, type LockMode } from '../../../lib/core/lock.errors.js';
import { type Lock } from '../../../lib/core/lock.js';
import { type Application } from './application.js';
import { type HolderStep, type PlannedCall } from './plan.js';
import { type Checker } from '../checker/checker.js';
import { type SimProcess } from '../world/sim-process.js';

/** How a call ended: it was granted, or the name of its error. */
export type Outcome = 'granted' | 'aborted' | (string & {});

/** A call of the run, from its start to its outcome. */
export class Call {
  /** The attempts that it has sent, the latest last. */
  readonly attempts: string[] = [];
  /** Those that were granted: on a cluster, one for each slot. */
  readonly granted: string[] = [];
  outcome: Outcome | null = null;
  settledAt = Infinity;
  /** When its first request was sent. */
  askedAt = Infinity;
  abortedAt = Infinity;
  /** The signal that its caller gave. */
  signal: AbortSignal | null = null;
  held: Held | null = null;
  readonly startedAt: number;
  readonly startedMono: number;

  constructor(
    readonly plan: PlannedCall,
    readonly app: Application,
    /** The call in whose work it is made. */
    readonly outer: Call | null = null,
  ) {
    const { process } = app;
    this.startedAt = process.world.now;
    this.startedMono = process.clock.now();
  }

  get process() {
    return this.app.process;
  }

  get name(): string {
    return `c${this.plan.id}`;
  }

  get leaseMs(): number {
    return this.plan.options.leaseMs!;
  }

  get waitMs(): number {
    return this.plan.entry === 'tryAcquire' ? 0 : this.plan.options.waitMs!;
  }

  get isPending(): boolean {
    return this.outcome === null;
  }

  /** The attempt that counts: others were given back. */
  get attempt(): string | undefined {
    return this.attempts.at(-1);
  }

  get text(): string {
    return `${this.name} of ${this.process.name}`;
  }
}

/** A lock that a call holds, as its holder sees it. */
export interface Held {
  readonly call: Call;
  /** What the holder has: a handle, or the hold itself. */
  readonly lock: Lock;
  /** The hold of the store behind it; undefined for a nested call. */
  readonly hold: StoreHold | undefined;
  readonly attempt: string;
  readonly keys: readonly string[];
  readonly mode: LockMode;
  readonly owner: string | undefined;
  readonly grantedAt: number;
  /** When its acquire was sent first. */
  readonly askedAt: number;
  releasedAt: number;
  /** Until when its release is tried: what was proven of its lease. */
  wantedUntil: number;
  /** When the release was confirmed to the holder. */
  doneAt: number;
  lost: LockLostReason | null;
}

/** The reason of every abort, and the error of work that fails. */
export const ABORTED = new Error('aborted by the caller');
export const WORK_FAILED = new Error('the work failed');

/** Does what a holder does, until it has held for as long as it wanted to, or has noticed a loss. */
export async function hold(held: Held, checker: Checker): Promise<void> {
  const { call } = held;
  const { process, plan } = call;
  const until = process.clock.now() + plan.holdMs;
  const lost = lossOf(held);
  for (const step of plan.steps) {
    if (await lost.within(step.afterMs)) break;
    await doStep(held, step, checker);
    if (process.clock.now() >= until) break;
  }
  // Work may be done before any timer fires.
  if (plan.holdMs === 0 && plan.steps.length === 0) return;
  if (await lost.within(until - process.clock.now())) await process.sleep(plan.afterLossMs);
}

/** Waits until the holder hears of a loss. Those that do not listen look at `held` only at the end. */
function lossOf({ lock, call }: Held): { within(ms: number): Promise<boolean> } {
  const { plan, process } = call;
  const signal = plan.listens ? lock.signal : undefined;
  return { within: (ms) => waitWithin(process, signal, ms) };
}

/** Waits for so long, or until the signal is aborted. Returns whether it is. */
export const waitWithin = (process: SimProcess, signal: AbortSignal | undefined, ms: number): Promise<boolean> =>
  new Promise<boolean>((resolve) => {
    if (signal?.aborted) return resolve(true);
    const onAbort = (): void => (cancel(), resolve(true));
    const cancel = process.clock.setTimer(
      () => {
        signal?.removeEventListener('abort', onAbort);
        resolve(false);
      },
      Math.max(ms, 0),
    );
    signal?.addEventListener('abort', onAbort, { once: true });
  });

async function doStep(held: Held, step: HolderStep, checker: Checker): Promise<void> {
  const { does, leaseMs } = step;
  const { lock, call } = held;
  const { world } = call.process;
  checker.facts.called(does);
  checker.onStep(held, step);
  world.log(() => `${call.process.name} ${call.name} ${does}${leaseMs === undefined ? '' : `(${leaseMs})`}`);
  try {
    if (does === 'extend') {
      const from = { at: world.now, mono: call.process.clock.now() };
      await lock.extend(leaseMs!);
      checker.onExtended(held, leaseMs!, from);
    } else if (does === 'downgrade') {
      await lock.downgrade();
      checker.onDowngraded(held);
    } else {
      await call.app.service[does](lock.keys[0]!);
    }
  } catch (error) {
    checker.onStepFailed(held, does, error);
  }
}

/** Transfers locks, and adopts them in other processes. */
export class Adopter {
  constructor(
    private readonly checker: Checker,
    /** The application that runs in a slot. */
    private readonly inSlot: (slot: number) => Application | undefined,
  ) {}

  /** Transfers a lock instead of releasing it. Returns whether that worked. */
  async handOn(held: Held): Promise<boolean> {
    const { call, lock } = held;
    this.checker.facts.called('transfer');
    const asked = call.process.world.now;
    let text: string;
    try {
      text = await lock.transfer();
    } catch (error) {
      this.checker.onStepFailed(held, 'transfer', error);
      return false;
    }
    this.checker.onTransferred(held, await lock.release(), asked);
    const { world } = call.process;
    for (const use of call.plan.handsOn!) world.after(use.afterMs, null, 'plan', () => this.#use(held, text, use.call));
    return true;
  }

  #use(from: Held, text: string, plan: PlannedCall): void {
    const app = this.inSlot(plan.slot);
    if (!app) return;
    const { world } = app.process;
    world.after(0, app.process, 'plan', () => void this.#adopt(from, text, new Call(plan, app)));
  }

  /** Never rejects. */
  async #adopt(from: Held, text: string, call: Call): Promise<void> {
    const { checker } = this;
    const { app, process, plan } = call;
    process.world.log(() => `${process.name} ${call.name} adopts the lock of ${from.call.text}`);
    checker.facts.called(plan.entry);
    try {
      const lock = await app.service.adopt(text).catch((error: unknown) => checker.onNotAdopted(from, call, error));
      if (!lock) return;
      const held = checker.onAdopted(from, call, lock);
      await hold(held, checker);
      checker.onReleasing(held);
      checker.facts.called('release');
      checker.onReleased(held, await lock.release());
    } catch (error) {
      checker.onUnexpected(call, error);
    }
  }
}
