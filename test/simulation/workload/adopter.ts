import { type Judge } from '../judge/judge.js';
import { type Application } from './application.js';
import { Call, type Held } from './call.js';
import { hold } from './holder.js';
import { type PlannedCall } from './plan.js';

/** Transfers locks, and adopts them in other processes. */
export class Adopter {
  constructor(
    private readonly judge: Judge,
    /** The application that runs in a slot. */
    private readonly inSlot: (slot: number) => Application | undefined,
  ) {}

  /** Transfers a lock instead of releasing it. Returns whether that worked. */
  async handOn(held: Held): Promise<boolean> {
    const { call, lock } = held;
    this.judge.facts.called('transfer');
    let text: string;
    try {
      text = await lock.transfer();
    } catch (error) {
      this.judge.onStepFailed(held, 'transfer', error);
      return false;
    }
    this.judge.onTransferred(held, await lock.release());
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
    const { judge } = this;
    const { app, process, plan } = call;
    process.world.log(() => `${process.name} ${call.name} adopts the lock of ${from.call.text}`);
    judge.facts.called(plan.entry);
    try {
      const lock = await app.service.adopt(text).catch((error: unknown) => judge.onNotAdopted(from, call, error));
      if (!lock) return;
      const held = judge.onAdopted(from, call, lock);
      await hold(held, judge);
      judge.onReleasing(held);
      judge.facts.called('release');
      judge.onReleased(held, await lock.release());
    } catch (error) {
      judge.onUnexpected(call, error);
    }
  }
}
