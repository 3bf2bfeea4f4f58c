import process from 'node:process';
import { type Report } from './run-plan.js';

/** The figures of all runs of a command. */
export class Totals {
  runs = 0;
  readonly #counts = new Map<string, number>();
  readonly #start = performance.now();
  readonly #cpuStart = process.cpuUsage();
  readonly #sums = { calls: 0, events: 0, commands: 0, virtualMs: 0, violations: 0 };

  get seconds(): number {
    return (performance.now() - this.#start) / 1_000;
  }

  add(report: Report): void {
    this.runs += 1;
    for (const name of ['calls', 'events', 'commands', 'virtualMs'] as const) this.#sums[name] += report[name];
    this.#sums.violations += report.violations.length;
    for (const [what, count] of report.counts) this.#counts.set(what, (this.#counts.get(what) ?? 0) + count);
  }

  get text(): string {
    const { calls, events, commands, virtualMs, violations } = this.#sums;
    const { user, system } = process.cpuUsage(this.#cpuStart);
    const speed = `${Math.round(calls / this.seconds)} per second, ${Math.round(calls / ((user + system) / 1e6))} per second of CPU`;
    const counts = [...this.#counts].map(([what, count]) => `${what} ${count}`).sort();
    const amounts = `${calls} calls (${speed}), ${events} events, ${commands} commands`;
    return `${counts.join(', ')}\n${this.runs} runs, ${amounts}, ${(virtualMs / 3_600_000).toFixed(2)} virtual hours, ${violations} violations`;
  }
}
