import { type FireReport, timeOfDay } from '../lottery/fire-report.js';
import { DRAW_MS, PERIOD_MS } from '../lottery/lottery.settings.js';
import type { InstanceName } from './instance-group.js';

/** How long a fire waits for an instance that reports nothing. */
const GIVE_UP_MS = PERIOD_MS + DRAW_MS;

const KEPT_FIRES = 10;

export interface FireBoardListener {
  /** The instances that have to report. */
  instances(): readonly InstanceName[];
  print(line: string): void;
  /** Called once per fire, when all instances have reported or time is up, with their reports. */
  onComplete(fire: number, reports: ReadonlyMap<InstanceName, FireReport>): void;
  /** Called for each report of a fire that is complete: an instance that was frozen reports late. */
  onLate(fire: number, instance: InstanceName, report: FireReport): void;
}

/** Collects the reports of each fire, and prints one line when all instances have reported. */
export class FireBoard {
  readonly #fires = new Map<number, Fire>();
  #from = Infinity;

  constructor(private readonly listener: FireBoardListener) {}

  /** Ignores fires up to now: not all instances were running. */
  start(): void {
    this.#from = Date.now();
  }

  add(instance: InstanceName, report: FireReport): void {
    if (report.fire <= this.#from) return;
    const fire = this.#fires.get(report.fire) ?? this.#open(report.fire);
    // A stopped instance may fire twice in one period when it resumes: what it drew counts.
    if (fire.reports.get(instance)?.outcome !== 'drew') {
      fire.reports.set(instance, report);
      if (fire.complete) this.listener.onLate(report.fire, instance, report);
    }
    this.#completeIfAllReported(report.fire, fire);
  }

  /** Stops waiting for instances that have ended. */
  recheck(): void {
    for (const [time, fire] of this.#fires) this.#completeIfAllReported(time, fire);
  }

  #open(time: number): Fire {
    const giveUp = setTimeout(() => this.#complete(time, fire), GIVE_UP_MS).unref();
    const fire: Fire = { reports: new Map(), giveUp, complete: false };
    this.#fires.set(time, fire);
    if (this.#fires.size > KEPT_FIRES) this.#fires.delete(Math.min(...this.#fires.keys()));
    return fire;
  }

  #completeIfAllReported(time: number, fire: Fire): void {
    const reported = (name: InstanceName): boolean => isFinal(fire.reports.get(name));
    if (this.listener.instances().every(reported)) this.#complete(time, fire);
  }

  #complete(time: number, fire: Fire): void {
    if (fire.complete) return;
    fire.complete = true;
    clearTimeout(fire.giveUp);
    this.listener.print(`${timeOfDay(time)}  ${lineOf(fire.reports, this.listener.instances())}`);
    this.listener.onComplete(time, fire.reports);
  }
}

interface Fire {
  readonly reports: Map<InstanceName, FireReport>;
  readonly giveUp: NodeJS.Timeout;
  complete: boolean;
}

const isFinal = (report: FireReport | undefined): boolean => report !== undefined && report.outcome !== 'drawing';

function lineOf(reports: ReadonlyMap<InstanceName, FireReport>, living: readonly InstanceName[]): string {
  const names = [...new Set([...reports.keys(), ...living])].sort();
  const drew = names.flatMap((name) => drawOf(name, reports.get(name)));
  const skipped = names.filter((name) => reports.get(name)?.outcome === 'skipped');
  const silent = names.filter((name) => !reports.has(name));
  const parts = drew.length > 0 ? drew : ['no draw'];
  if (skipped.length > 0) parts.push(`${skipped.join(' and ')} skipped`);
  if (silent.length > 0) parts.push(`${silent.join(' and ')} reported nothing`);
  return parts.join(', ');
}

function drawOf(name: string, report: FireReport | undefined): string[] {
  if (report === undefined || report.outcome === 'skipped') return [];
  const token = report.fencingToken === null ? 'without a lock' : `fencing token ${report.fencingToken}`;
  if (report.outcome === 'drawing') return [`${name} started and did not finish (${token})`];
  return [`${name} drew ${report.winners.length} winners (${token})`];
}
