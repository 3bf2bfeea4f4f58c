import { type Lock } from '../../../lib/core/lock.js';
import { type LockOptions } from '../../../lib/core/lock.options.js';
import { type FireClaim } from '../../../lib/core/store/fires.js';
import { type Checker } from '../checker/checker.js';
import { type Library } from '../library/library.js';
import { EPOCH_MS } from '../world/sim-process.js';
import { type Application } from './application.js';
import { ABORTED, type Adopter, Call, hold, WORK_FAILED } from './call.js';
import { type PlannedCall, type PlannedClaim } from './plan.js';

/** How long fires are remembered. */
const REMEMBER_MS = 600_000;

/** Makes the calls of a plan, and does in each process what its holders do. */
export class Caller {
  constructor(
    private readonly library: Library,
    private readonly checker: Checker,
    private readonly adopter: Adopter,
  ) {}

  /** Never rejects. */
  async run(plan: PlannedCall, app: Application, outer: Call | null = null): Promise<void> {
    const call = new Call(plan, app, outer);
    const { world } = call.process;
    const { entry, keys, options } = plan;
    world.log(() => `${call.process.name} ${call.name} ${entry}(${keys.join(', ')}) ${textOf(options)}`);
    this.checker.facts.called(entry);
    this.checker.onCall(call);
    try {
      if (entry === 'withLock' || entry === 'enter') await this.#runInside(call);
      else await this.#runWithHandle(call);
    } catch (error) {
      this.checker.onUnexpected(call, error);
    }
  }

  async #runWithHandle(call: Call): Promise<void> {
    const { entry, keys } = call.plan;
    const { service } = call.app;
    const acquiring = this.#acquiring(call);
    let lock: Lock | null;
    try {
      lock = await call.app.labelled(call.name, () => service[entry as 'acquire'](keys, acquiring.options));
    } catch (error) {
      return this.checker.onSettled(call, error);
    } finally {
      acquiring.stop();
    }
    this.checker.onSettled(call, lock ? undefined : 'busy');
    if (!lock) return;
    const held = this.checker.onHeld(call, lock);
    await hold(held, this.checker);
    if (call.plan.handsOn && (await this.adopter.handOn(held))) return;
    this.checker.onReleasing(held);
    if (call.plan.isDropped) {
      this.checker.onDropped(held);
      return call.process.garbage.collect(lock);
    }
    this.checker.facts.called('release');
    const wasHeld = await lock.release();
    this.checker.onReleased(held, wasHeld);
  }

  async #runInside(call: Call): Promise<void> {
    const acquiring = this.#acquiring(call);
    let wasInside = false;
    const work = async (lock: Lock): Promise<string> => {
      wasInside = true;
      acquiring.stop();
      this.checker.onSettled(call, undefined);
      const held = this.checker.onHeld(call, lock);
      const nested = (call.plan.nested ?? []).map((plan) => this.run(plan, call.app, call));
      await Promise.all([hold(held, this.checker), ...(call.plan.isDetached ? [] : nested)]);
      this.checker.onReleasing(held);
      if (call.plan.claim?.ends === 'failed') throw WORK_FAILED;
      return call.name;
    };
    let result: unknown;
    try {
      result = await this.#enter(call, acquiring.options, work);
    } catch (error) {
      acquiring.stop();
      if (!wasInside) return this.checker.onSettled(call, error);
      return this.checker.onWorkRejected(call, error);
    }
    this.checker.onWorkReturned(call, result);
  }

  async #enter(call: Call, options: LockOptions, work: (lock: Lock) => Promise<string>): Promise<unknown> {
    const { keys, entry, claim } = call.plan;
    const { service, locker, process } = call.app;
    const { enterLock, resolveLockOptions, runWithLock } = this.library;
    if (entry === 'withLock') return call.app.labelled(call.name, () => service.withLock(keys, options, work));
    // As the interceptor does.
    const label = { where: call.name, template: undefined };
    const fire = claim && claimOf(claim, process.clock.now());
    const request = locker.request(keys, resolveLockOptions(options, call.app.options), label, fire);
    return runWithLock(await enterLock(locker, request), work);
  }

  /** The options of a call, with a signal that is aborted as the plan defines. */
  #acquiring(call: Call): { readonly options: LockOptions; readonly stop: () => void } {
    const { options, abortMs } = call.plan;
    if (abortMs === undefined) return { options, stop: () => undefined };
    const controller = new AbortController();
    call.signal = controller.signal;
    const stop = call.process.clock.setTimer(() => {
      call.abortedAt = call.process.world.now;
      controller.abort(ABORTED);
    }, abortMs);
    return { options: { ...options, signal: controller.signal }, stop };
  }
}

const claimOf = ({ job, kind, ms, rerunOnLoss }: PlannedClaim, calledAt: number): FireClaim => ({
  job,
  kind,
  ms: kind === 'at' ? EPOCH_MS + ms : ms,
  calledAt,
  rememberMs: REMEMBER_MS,
  rerunOnLoss,
});

const textOf = (options: object): string =>
  Object.entries(options)
    .map(([name, value]) => `${name} ${String(value)}`)
    .join(', ');
