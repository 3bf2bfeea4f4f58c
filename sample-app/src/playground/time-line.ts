import type { FireReport } from '../lottery/fire-report.js';
import type { InstanceName } from '../runner/instance-group.js';

const KEPT = 60;
const LOTTERY = 'Lottery';

/** What one instance did: it won, did not, or was not heard of. */
export interface Part {
  readonly kind: 'won' | 'skipped' | 'silent';
  readonly text: string;
}

/** One thing that happened, to all instances or to some. */
export interface Moment {
  readonly at: number;
  readonly title: string;
  /** What the instances did, if known. One may do two things. */
  readonly parts: Readonly<Partial<Record<InstanceName, readonly Part[]>>>;
}

/** What happened lately. */
export class TimeLine {
  readonly #moments: (Moment & { readonly parts: Partial<Record<InstanceName, readonly Part[]>> })[] = [];

  /** The newest first. */
  get moments(): readonly Moment[] {
    return this.#moments;
  }

  /** Adds a moment. The returned function records what an instance did. */
  begin(title: string, at = Date.now()): (name: InstanceName, part: Part) => void {
    const parts: Partial<Record<InstanceName, Part[]>> = {};
    this.#moments.unshift({ at, title, parts });
    this.#moments.sort((one, other) => other.at - one.at).splice(KEPT);
    return (name, part) => void (parts[name] ??= []).push(part);
  }

  /** Adds a fire of the lottery that all known instances have reported. */
  addFire(fire: number, reports: ReadonlyMap<InstanceName, FireReport>): void {
    const show = this.begin(LOTTERY, fire);
    for (const [name, report] of reports) show(name, partOf(report));
  }

  /** Corrects what an instance did at a fire: it was frozen, and reports late. */
  correctFire(fire: number, name: InstanceName, report: FireReport): void {
    const moment = this.#moments.find(({ at, title }) => at === fire && title === LOTTERY);
    if (moment) moment.parts[name] = [partOf(report)];
  }
}

function partOf(report: FireReport): Part {
  if (report.outcome === 'skipped') return { kind: 'skipped', text: 'skipped' };
  const token = `token ${report.fencingToken ?? 'none'}`;
  if (report.outcome === 'drawing') return { kind: 'silent', text: `began (${token}), and was not heard of again` };
  return { kind: 'won', text: `drew ${report.winners.length} winners (${token})` };
}
