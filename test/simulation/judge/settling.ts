import { type SimProcess } from '../world/sim-process.js';
import { type Call, type Held, type Outcome } from '../workload/call.js';
import { type Facts } from './facts.js';
import { type Rule } from './rule.js';

/** A first answer may take that long, whatever `waitMs` is; so may the answer to a release (lib/core/timing.ts). */
const PATIENCE_MS = 1_000;

/** A deadline that is late already waits for an answer that may have arrived (`READ_MS`); and timers are late, too. */
const LATE_MS = 60;

/** Every call settles in its time: `waitMs` and the first answer, an abort at once, a release within a second. */
export class Settling implements Rule {
  constructor(private readonly facts: Facts) {}

  onSettled(call: Call, outcome: Outcome): void {
    const { now } = this.facts.world;
    this.#checkTime(call, outcome);
    const wasStopped = call.process.stops.some(({ to }) => to >= call.abortedAt);
    if (now - call.abortedAt <= 1 || outcome === 'granted' || wasStopped) return;
    this.facts.world.violate(
      'an abort ends a wait at once',
      `${call.text}: ${outcome}, ${now - call.abortedAt} ms later`,
    );
  }

  onTick(): void {
    for (const call of this.facts.pending) {
      if (call.process.isDead) this.facts.pending.delete(call);
      else if (!call.process.isStopped && this.#checkTime(call, 'waits still')) this.facts.pending.delete(call);
    }
  }

  #checkTime(call: Call, outcome: Outcome): boolean {
    const { process, startedAt, startedMono, waitMs } = call;
    const stoppedMs = stoppedSince(process, startedAt, this.facts.world.now);
    const waitedMs = process.clock.now() - startedMono - stoppedMs * 1.01;
    if (waitedMs <= waitMs + PATIENCE_MS + LATE_MS) return false;
    const text = `${call.text}: ${outcome} after ${waitedMs.toFixed(0)} of ${waitMs} ms`;
    this.facts.world.violate('every call settles in its time', text);
    return true;
  }

  onReleased(held: Held, _wasHeld: boolean, tookMs: number): void {
    const wasStopped = held.call.process.stops.some(({ to }) => to >= held.releasedAt);
    if (wasStopped || tookMs <= PATIENCE_MS * 1.01 + LATE_MS || held.call.plan.nested) return;
    this.facts.world.violate('a release settles in its time', `${held.call.text}: after ${tookMs.toFixed(0)} ms`);
  }
}

/** For how long a process could not run since a moment. A clock that stood still meanwhile needs no correction. */
function stoppedSince(process: SimProcess, since: number, now: number): number {
  const times = process.stops.map(({ from, to }) => Math.max(0, Math.min(to, now) - Math.max(from, since)));
  return times.reduce((sum, ms) => sum + ms, 0);
}
