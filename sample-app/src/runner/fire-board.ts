import { type FireReport } from '../lottery/report.js';
import { settings } from '../settings.js';

/** Gathers what each instance says of each fire, and prints a line when all have said it or the next fire is due. */
export class FireBoard {
  readonly #reports = new Map<number, FireReport[]>();
  readonly #done: number[] = [];
  #from = Infinity;
  #onDone: () => void = () => undefined;

  constructor(
    readonly names: readonly string[],
    private readonly print: (line: string) => void,
  ) {}

  /** The fires that are complete, in order. */
  get fires(): readonly number[] {
    return this.#done;
  }

  /** Counts from the next fire on: at an earlier one not all instances were there. */
  begin(): void {
    this.#from = (Math.floor(Date.now() / settings.periodMs) + 1) * settings.periodMs;
    this.#await(this.#from);
  }

  add(report: FireReport): void {
    if (report.outcome === 'started' || report.fire < this.#from) return;
    const reports = this.#reports.get(report.fire) ?? [];
    reports.push(report);
    this.#reports.set(report.fire, reports);
  }

  /** Resolves when so many fires are complete. */
  complete(fires: number): Promise<'complete'> {
    return new Promise((resolve) => {
      this.#onDone = () => this.#done.length >= fires && resolve('complete');
      this.#onDone();
    });
  }

  /** Looks at a fire when its period is over, and a draw that began in it had time to end. */
  #await(fire: number): void {
    const overAt = fire + settings.periodMs * 0.8 + settings.drawMs;
    setTimeout(() => this.#look(fire, 0), overAt - Date.now());
    setTimeout(() => this.#await(fire + settings.periodMs), fire + settings.periodMs / 2 - Date.now()).unref();
  }

  #look(fire: number, tries: number): void {
    const reports = this.#reports.get(fire) ?? [];
    // A machine under load may be late: an instance has as long again, ten times.
    if (new Set(reports.map(({ instance }) => instance)).size < this.names.length && tries < 10) {
      setTimeout(() => this.#look(fire, tries + 1), settings.periodMs / 5);
      return;
    }
    this.#done.push(fire);
    this.print(lineOf(fire, reports));
    this.#onDone();
  }
}

function lineOf(fire: number, reports: readonly FireReport[]): string {
  const time = new Date(fire).toISOString().slice(11, 19);
  const won = reports.filter(({ outcome }) => outcome === 'won');
  const rest = reports
    .filter(({ outcome }) => outcome !== 'won')
    .map(({ instance, outcome }) => `${instance} ${outcome}`);
  const wins = won.map(({ instance, fencingToken }) => `${instance} won with fencing token ${fencingToken}`);
  return `${time}  ${[...wins, ...rest.sort()].join(', ') || 'nobody drew'}`;
}
