import { type DemotionReason } from '../../../lib/core/lock.events.js';
import { type LeaderTerm, type Leadership } from '../../../lib/leader/leadership.js';
import { type Judge } from '../judge/judge.js';
import { type Application } from './application.js';
import { waitWithin } from './holder.js';
import { type PlannedLead } from './plan.js';

/** The campaign of a process. */
export class Candidate {
  readonly leadership: Leadership;

  constructor(
    readonly app: Application,
    readonly plan: PlannedLead,
    lead: () => Leadership,
  ) {
    this.leadership = lead();
  }

  get text(): string {
    return `the leader of ${this.plan.key} in ${this.app.process.name}`;
  }
}

/** Has processes campaign, and does in each of them what its leaders do. */
export class Campaigner {
  readonly #candidates: Candidate[] = [];

  constructor(
    private readonly judge: Judge,
    private readonly leads: readonly PlannedLead[],
  ) {}

  /** A process has started. */
  begin(app: Application): void {
    for (const plan of this.leads) if (plan.slot === app.process.slot) this.#begin(plan, app);
  }

  /** Ends all campaigns, long after the last fault. */
  end(): void {
    for (const { app, leadership } of this.#candidates) {
      if (app.process.isDead || app.process.isClosing) continue;
      this.judge.facts.called('stop');
      this.judge.facts.world.after(0, app.process, 'plan', () => void leadership.stop());
    }
  }

  #begin(plan: PlannedLead, app: Application): void {
    const { key, leaseMs } = plan;
    this.judge.facts.called('lead');
    const candidate: Candidate = new Candidate(app, plan, () =>
      app.service.lead(key, {
        leaseMs,
        onElected: (term) => this.#lead(candidate, term),
        onDemoted: (term, reason) => this.#onDemoted(candidate, term, reason),
      }),
    );
    this.#candidates.push(candidate);
    this.judge.onCampaign(candidate);
  }

  async #lead(candidate: Candidate, term: LeaderTerm): Promise<void> {
    const { plan, app, leadership } = candidate;
    this.judge.onElected(candidate, term);
    if (plan.termMs === undefined) await waitWithin(app.process, term.signal, Infinity);
    else if (!(await waitWithin(app.process, term.signal, plan.termMs))) {
      this.judge.facts.called('resign');
      await leadership.resign();
    }
    if (plan.goesOnMs > 0) await app.process.sleep(plan.goesOnMs);
  }

  #onDemoted(candidate: Candidate, term: LeaderTerm, reason: DemotionReason): void {
    this.judge.onDemoted(candidate, term, reason);
  }
}
