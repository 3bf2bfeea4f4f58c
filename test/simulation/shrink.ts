import { type Library } from './library/library.js';
import { type Report, runPlan } from './run-plan.js';
import { type Plan, type PlannedCall } from './workload/plan.js';

type Change = (plan: Plan) => Plan;

/** Parts of a call that it can do without. */
const SIMPLER: readonly ((call: PlannedCall) => PlannedCall)[] = [
  (call) => ({ ...call, steps: [] }),
  (call) => ({ ...call, nested: undefined }),
  (call) => ({ ...call, abortMs: undefined }),
  (call) => ({ ...call, keys: call.keys.slice(0, 1) }),
  ...(['take', 'permits', 'owner', 'fair', 'holdAtLeastMs', 'maxHoldMs', 'renew', 'awaitRelease'] as const).map(
    (name) => (call: PlannedCall) => ({ ...call, options: { ...call.options, [name]: undefined } }),
  ),
];

/** Makes a plan smaller as long as it breaks the same rule: fewer faults, calls and processes, and simpler calls. */
export class Shrinker {
  #runs = 0;
  #best: Report;
  readonly #rule: string;

  constructor(
    private readonly library: Library,
    found: Report,
    private readonly maxRuns: number,
  ) {
    this.#best = found;
    this.#rule = found.violations[0]!.rule;
  }

  async shrink(): Promise<Report> {
    let size: number;
    do {
      size = JSON.stringify(this.#plan).length;
      await this.#try(endingAt(this.#best.violations[0]!.at + 1));
      await this.#dropFrom('faults');
      await this.#dropFrom('calls');
      await this.#dropFrom('leads');
      await this.#dropSlots();
      await this.#simplifyCalls();
    } while (this.#runs < this.maxRuns && JSON.stringify(this.#plan).length < size);
    return runPlan(this.library, this.#plan, { isTraced: true });
  }

  get #plan(): Plan {
    return this.#best.plan;
  }

  async #try(change: Change): Promise<boolean> {
    const plan = change(this.#plan);
    if (this.#runs >= this.maxRuns || JSON.stringify(plan) === JSON.stringify(this.#plan)) return false;
    this.#runs += 1;
    const report = await runPlan(this.library, plan);
    if (report.violations[0]?.rule !== this.#rule) return false;
    this.#best = report;
    return true;
  }

  /** Drops halves first, then smaller parts. */
  async #dropFrom(name: 'calls' | 'faults' | 'leads'): Promise<void> {
    const all = (plan: Plan) => plan[name] ?? [];
    for (let length = Math.ceil(all(this.#plan).length / 2); length >= 1; length = Math.floor(length / 2)) {
      for (let from = 0; from < all(this.#plan).length;) {
        const without: Change = (plan) => ({ ...plan, [name]: all(plan).toSpliced(from, length) });
        if (!(await this.#try(without))) from += length;
        if (this.#runs >= this.maxRuns) return;
      }
    }
  }

  async #dropSlots(): Promise<void> {
    for (let slot = this.#plan.slots.length - 1; slot >= 0; slot -= 1) await this.#try(withoutSlot(slot));
  }

  async #simplifyCalls(): Promise<void> {
    for (const i of this.#plan.calls.keys()) {
      for (const simpler of SIMPLER) {
        await this.#try((plan) => ({ ...plan, calls: plan.calls.with(i, simpler(plan.calls[i]!)) }));
      }
    }
  }
}

const endingAt =
  (ms: number): Change =>
  (plan) => ({
    ...plan,
    calls: plan.calls.filter(({ at }) => at < ms),
    faults: plan.faults.filter(({ at }) => at < ms),
  });

/** Without a process that no call is made in. */
const withoutSlot =
  (gone: number): Change =>
  (plan) => {
    const names = (one: object): boolean => 'slot' in one && one.slot === gone;
    if (plan.slots.length === 1 || plan.calls.some(names) || plan.faults.some(names) || plan.leads?.some(names))
      return plan;
    const moved = <T extends object>(one: T): T =>
      'slot' in one && (one.slot as number) > gone ? { ...one, slot: (one.slot as number) - 1 } : one;
    return {
      ...plan,
      slots: plan.slots.toSpliced(gone, 1),
      calls: plan.calls.map(moved),
      faults: plan.faults.map(moved),
      leads: plan.leads?.map(moved),
    };
  };
