import { getEventListeners } from 'node:events';
import { slotOf } from '../../../lib/redis/client/cluster-slots.js';
import { type SimProcess } from '../world/sim-process.js';
import { type Call, type Held, type Outcome } from '../workload/call.js';
import { type Facts, KEY_PREFIX } from './facts.js';
import { type Rule } from './rule.js';

/** A first answer may take that long, whatever `waitMs` is; so may the answer to a release (lib/core/timing.ts). */
const PATIENCE_MS = 1_000;

/**
 * A timer may be 1.2 ms late (`SimProcess`), and one that fired too early is set again, for a millisecond at least. Times are
 * rounded up to a millisecond.
 */
const LATE_MS = 4;

/** A deadline that passes while the process is stopped waits so long for an answer that may have arrived (`READ_MS`). */
const READ_MS = 60;

/**
 * Every call settles in its time: `waitMs`, or a second while it has no answer yet; an abort at once, a release within a
 * second. All are counted on the clock of the process. And no call gives up before its time.
 */
export class Settling implements Rule {
  constructor(private readonly facts: Facts) {}

  onSettled(call: Call, outcome: Outcome): void {
    this.#checkTime(call, outcome);
    this.#checkPatience(call, outcome);
    this.#checkListeners(call);
    const { process, abortedAt } = call;
    const wasStopped = process.stops.some(({ to }) => to >= abortedAt);
    const laterMs = (this.facts.world.now - abortedAt) * process.rate;
    if (laterMs <= 1 + this.#givingBackMs(call) || outcome === 'granted' || wasStopped) return;
    this.facts.world.violate('an abort ends a wait at once', `${call.text}: ${outcome}, ${laterMs} ms later`);
  }

  onTick(): void {
    for (const call of this.facts.pending) {
      if (call.process.isDead) this.facts.pending.delete(call);
      else if (!call.process.isStopped && this.#checkTime(call, 'waits still')) this.facts.pending.delete(call);
    }
  }

  #checkTime(call: Call, outcome: Outcome): boolean {
    const { process, startedAt, waitMs } = call;
    const stoppedMs = stoppedSince(process, startedAt, this.facts.world.now);
    const waitedMs = waitedOf(call) - stoppedMs * 1.01;
    // A nested call may have waited for its siblings, and needs a first answer then.
    const firstAnswerMs = call.outer && call.askedAt < Infinity ? PATIENCE_MS : 0;
    const boundMs = Math.max(waitMs + Math.max(firstAnswerMs, this.#givingBackMs(call)), PATIENCE_MS);
    if (waitedMs <= boundMs + lateMs(process, startedAt)) return false;
    const text = `${call.text}: ${outcome} after ${waitedMs.toFixed(1)} of ${waitMs} ms`;
    this.facts.world.violate('every call settles in its time', text);
    return true;
  }

  /** What was locked in other slots of a cluster is given back first. */
  #givingBackMs({ plan: { keys } }: Call): number {
    if (this.facts.plan.profile.topology !== 'cluster') return 0;
    const slots = new Set(keys.map((key) => slotOf(KEY_PREFIX + key)));
    return slots.size > 1 ? PATIENCE_MS + LATE_MS : 0;
  }

  /** A timer may fire half a millisecond early. A fire that was claimed ends the wait for it. */
  #checkPatience(call: Call, outcome: Outcome): void {
    const waitedMs = waitedOf(call);
    const isEarly = outcome === 'LockWaitTimeoutError' && waitedMs < call.waitMs - 1;
    const isUnwilling = call.waitMs > 0 && !call.plan.claim && (outcome === 'LockBusyError' || outcome === 'busy');
    if (!isEarly && !isUnwilling) return;
    const text = `${call.text}: ${outcome} after ${waitedMs.toFixed(1)} of ${call.waitMs} ms`;
    this.facts.world.violate('no call gives up before its time', text);
  }

  /** A signal may live as long as its application. */
  #checkListeners({ signal, text }: Call): void {
    const count = signal ? getEventListeners(signal, 'abort').length : 0;
    if (count > 0) this.facts.world.violate('10: nothing is left on a signal', `${text}: ${count} listeners`);
  }

  onReleased(held: Held, _wasHeld: boolean, tookMs: number): void {
    const { call, releasedAt } = held;
    const boundMs = PATIENCE_MS + lateMs(call.process, releasedAt);
    if (tookMs * call.process.rate <= boundMs || call.process.stops.some(({ to }) => to >= releasedAt)) return;
    this.facts.world.violate('a release settles in its time', `${call.text}: after ${tookMs.toFixed(1)} ms`);
  }
}

const waitedOf = ({ process, startedMono }: Call): number => process.clock.now() - startedMono;

/** How late a process may be that was stopped since, or was not. */
const lateMs = ({ stops }: SimProcess, since: number): number =>
  stops.some(({ to }) => to >= since) ? READ_MS + LATE_MS : LATE_MS;

/** For how long a process could not run since a moment. A clock that stood still meanwhile needs no correction. */
function stoppedSince(process: SimProcess, since: number, now: number): number {
  const times = process.stops.map(({ from, to }) => Math.max(0, Math.min(to, now) - Math.max(from, since)));
  return times.reduce((sum, ms) => sum + ms, 0);
}
