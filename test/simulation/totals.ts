import process from 'node:process';
import { type Report } from './run-plan.js';

/** The calls that acquire a lock. `enter` is what a decorator calls. */
const ACQUIRES = ['acquire', 'tryAcquire', 'withLock', 'enter'];

/** The figures of all runs of a command. */
export class Totals {
  runs = 0;
  readonly #counts = new Map<string, number>();
  readonly #calls = new Map<string, number>();
  readonly #start = performance.now();
  readonly #cpuStart = process.cpuUsage();
  readonly #sums = { events: 0, commands: 0, virtualMs: 0, violations: 0 };

  get seconds(): number {
    return (performance.now() - this.#start) / 1_000;
  }

  add(report: Report): void {
    this.runs += 1;
    for (const name of ['events', 'commands', 'virtualMs'] as const) this.#sums[name] += report[name];
    this.#sums.violations += report.violations.length;
    addTo(this.#counts, report.counts);
    addTo(this.#calls, report.calls);
  }

  get text(): string {
    const { events, commands, virtualMs, violations } = this.#sums;
    const { user, system } = process.cpuUsage(this.#cpuStart);
    const calls = sumOf(this.#calls.values());
    const acquires = sumOf(ACQUIRES.map((name) => this.#calls.get(name) ?? 0));
    const speed = `${Math.round(calls / this.seconds)} per second, ${Math.round(calls / ((user + system) / 1e6))} per second of CPU`;
    return [
      textOf(this.#counts),
      `calls: ${textOf(this.#calls)}`,
      `${this.runs} runs, ${calls} public calls (${speed}), ${acquires} of them acquires`,
      `${events} events, ${commands} commands, ${(virtualMs / 3_600_000).toFixed(2)} virtual hours, ${violations} violations`,
    ].join('\n');
  }
}

function addTo(sums: Map<string, number>, more: ReadonlyMap<string, number>): void {
  for (const [what, count] of more) sums.set(what, (sums.get(what) ?? 0) + count);
}

const sumOf = (numbers: Iterable<number>): number => [...numbers].reduce((sum, one) => sum + one, 0);

const textOf = (sums: ReadonlyMap<string, number>): string =>
  [...sums]
    .map(([what, count]) => `${what} ${count}`)
    .sort()
    .join(', ');
