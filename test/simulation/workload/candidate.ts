import { type Leadership } from '../../../lib/leader/leadership.js';
import { type Application } from './application.js';
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
