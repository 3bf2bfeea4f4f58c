import { type FireReport, timeOfDay } from '../lottery/fire-report.js';
import { DRAW_MS, PERIOD_MS } from '../lottery/lottery.settings.js';

/** How long a fire waits for an instance that says nothing. */
const GIVE_UP_MS = PERIOD_MS + DRAW_MS;

const KEPT_FIRES = 10;

export interface FireBoardListener {
  /** Who is to report. */
  instances(): readonly string[];
  print(line: string): void;
  /** All instances reported, or some did not in time. */
  onComplete(fire: number): void;
}

/** Collects what the instances say of each fire, and prints one line when all have spoken. */
export class FireBoard {
  readonly #fires = new Map<number, Fire>();
  #from = Infinity;

  constructor(private readonly listener: FireBoardListener) {}

  /** Leaves out the fires up to now, of which not all instances knew. */
  start(): void {
    this.#from = Date.now();
  }

  add(instance: string, report: FireReport): void {
    if (report.fire <= this.#from) return;
    const fire = this.#fires.get(report.fire) ?? this.#open(report.fire);
    // The timer of an instance that was stopped for a while may fire twice in one period: what it drew counts.
    if (fire.reports.get(instance)?.outcome !== 'drew') fire.reports.set(instance, report);
    this.#completeIfAllSpoke(report.fire, fire);
  }

  /** An instance that ended is not waited for. */
  recheck(): void {
    for (const [time, fire] of this.#fires) this.#completeIfAllSpoke(time, fire);
  }

  #open(time: number): Fire {
    const giveUp = setTimeout(() => this.#complete(time, fire), GIVE_UP_MS).unref();
    const fire: Fire = { reports: new Map(), giveUp, complete: false };
    this.#fires.set(time, fire);
    if (this.#fires.size > KEPT_FIRES) this.#fires.delete(Math.min(...this.#fires.keys()));
    return fire;
  }

  #completeIfAllSpoke(time: number, fire: Fire): void {
    const spoke = (name: string): boolean => isFinal(fire.reports.get(name));
    if (this.listener.instances().every(spoke)) this.#complete(time, fire);
  }

  #complete(time: number, fire: Fire): void {
    if (fire.complete) return;
    fire.complete = true;
    clearTimeout(fire.giveUp);
    this.listener.print(`${timeOfDay(time)}  ${lineOf(fire.reports, this.listener.instances())}`);
    this.listener.onComplete(time);
  }
}

interface Fire {
  readonly reports: Map<string, FireReport>;
  readonly giveUp: NodeJS.Timeout;
  complete: boolean;
}

const isFinal = (report: FireReport | undefined): boolean => report !== undefined && report.outcome !== 'drawing';

function lineOf(reports: ReadonlyMap<string, FireReport>, living: readonly string[]): string {
  const names = [...new Set([...reports.keys(), ...living])].sort();
  const drew = names.flatMap((name) => drawOf(name, reports.get(name)));
  const skipped = names.filter((name) => reports.get(name)?.outcome === 'skipped');
  const silent = names.filter((name) => !reports.has(name));
  const parts = drew.length > 0 ? drew : ['nobody drew'];
  if (skipped.length > 0) parts.push(`${skipped.join(' and ')} skipped`);
  if (silent.length > 0) parts.push(`${silent.join(' and ')} said nothing`);
  return parts.join(', ');
}

function drawOf(name: string, report: FireReport | undefined): string[] {
  if (report === undefined || report.outcome === 'skipped') return [];
  const token = report.fencingToken === null ? 'without a lock' : `fencing token ${report.fencingToken}`;
  if (report.outcome === 'drawing') return [`${name} began and did not finish (${token})`];
  return [`${name} drew ${report.winners.length} winners (${token})`];
}
