import { type Call, type Held } from '../workload/call.js';
import { EPOCH_MS } from '../world/sim-process.js';
import { type Change, Judging, type Rule } from './rule.js';

/** One run per fire of a job; with `rerunOnLoss`, one that ended without an outcome may be repeated. */
export class Fires extends Judging implements Rule {
  /** The fire that an attempt claimed, as the server replied. */
  readonly #fireOf = new Map<string, string>();
  readonly #runs = new Map<string, Held[]>();
  /** On how many servers the outcome of a run is known. */
  readonly #confirmed = new Map<string, number>();

  onChange({ script, reply }: Change): void {
    const attempt = script.text('attempt');
    if (script.name === 'acquire' && reply[0] === 'granted' && (reply[5] ?? '') !== '')
      this.#fireOf.set(attempt, String(reply[5]));
    if (script.name !== 'release' || reply[0] !== 'released') return;
    if (!['done', 'failed'].includes(script.text('runOutcome'))) return;
    this.#confirmed.set(attempt, (this.#confirmed.get(attempt) ?? 0) + 1);
  }

  onHeld(held: Held): void {
    const { claim } = held.call.plan;
    const fire = this.#fireOf.get(held.attempt);
    if (!claim) return;
    if (fire === undefined)
      return this.facts.world.violate('one run per fire', `${held.call.text} runs without a fire`);
    const id = `${held.keys[0]} ${claim.job} ${fire}`;
    const before = this.#runs.get(id) ?? [];
    this.#runs.set(id, [...before, held]);
    this.facts.count('runs');
    const wasWiped = this.facts.network.servers.some(({ wipes }) =>
      wipes.some((at) => at > (before[0]?.askedAt ?? Infinity)),
    );
    const wasLost = this.facts.failovers.lostAt > (before[0]?.askedAt ?? Infinity);
    const isOver = ({ attempt }: Held): boolean => (this.#confirmed.get(attempt) ?? 0) >= this.facts.majority;
    const bad = before.find((run) => !claim.rerunOnLoss || isOver(run));
    if (bad && !wasWiped && !wasLost)
      this.facts.world.violate('one run per fire', `${id}: ${held.call.text} after ${bad.call.text}`);
  }

  onEnd(): void {
    if (!this.facts.plan.profile.isCalm) return;
    const fires = [...this.facts.calls.values()].flatMap(({ plan: { claim, keys } }) =>
      claim?.kind === 'at' ? [{ claim, key: keys[0]! }] : [],
    );
    for (const { claim, key } of fires) {
      const runs = [...this.#runs.keys()].filter((id) => id.startsWith(`${key} ${claim.job} `));
      if (!runs.some((id) => id.endsWith(String(claim.ms).padStart(9, '0')))) {
        this.facts.world.violate('one run per fire', `${key} ${claim.job} ${claim.ms} was not run`);
        return;
      }
    }
  }
}

interface Run {
  readonly held: Held;
  readonly fire: number;
  isOver: boolean;
}

/** The clocks of a process and a server count the age of a call; either may be off by this. */
const ROUNDING_MS = 5;

/** A run that has ended is never repeated; a slot is that of the call, and a gap is kept. */
export class Runs extends Judging implements Rule {
  readonly #fires = new Map<string, number>();
  readonly #runs = new Map<string, Run[]>();
  readonly #byAttempt = new Map<string, Run>();

  onChange({ script, reply }: Change): void {
    if (script.name === 'acquire' && reply[0] === 'granted' && (reply[5] ?? '') !== '')
      this.#fires.set(script.text('attempt'), Number(reply[5]));
    if (script.name !== 'release' || reply[0] !== 'released' || this.facts.isQuorum) return;
    const run = this.#byAttempt.get(script.text('attempt'));
    if (run && run.held.releasedAt < Infinity && run.held.lost === null) run.isOver = true;
  }

  onHeld(held: Held): void {
    const { claim } = held.call.plan;
    const fire = this.#fires.get(held.attempt);
    if (!claim || fire === undefined) return;
    const id = `${held.keys[0]} ${claim.job}`;
    const before = this.#runs.get(id) ?? [];
    const run = { held, fire, isOver: false };
    this.#runs.set(id, [...before, run]);
    this.#byAttempt.set(held.attempt, run);
    if (this.facts.network.servers.some(({ wipes }) => wipes.length > 0)) return;
    if (this.facts.failovers.lostAt > (before[0]?.held.askedAt ?? Infinity)) return;
    const again = before.find((one) => one.fire === fire && one.isOver);
    if (again) this.violate('one run per fire', held.call, `${id} ${fire} is run again after ${again.held.call.text}`);
    if (claim.kind === 'gap') this.#checkGap(id, run, before, claim.ms);
    if (claim.kind === 'slot') this.#checkSlot(held.call, fire, claim.ms);
  }

  #checkGap(id: string, { fire, held }: Run, before: readonly Run[], ms: number): void {
    if (this.facts.plan.profile.rates.stepClock || this.facts.isQuorum) return;
    const near = before.find((one) => one.isOver && fire - one.fire < ms);
    if (near)
      this.violate('one run per fire', held.call, `${id} is run ${fire - near.fire} ms after ${near.held.call.text}`);
  }

  /** A call that waited has the slot in which it was made. */
  #checkSlot(call: Call, fire: number, ms: number): void {
    const { rates, drift } = this.facts.plan.profile;
    if (rates.stepClock || rates.sleep || this.facts.isQuorum) return;
    const madeAt = EPOCH_MS + call.startedAt;
    const offMs = ROUNDING_MS + 2 * drift * (this.facts.world.now - call.startedAt) + this.#serverDriftMs;
    const slots = [madeAt - offMs, madeAt + offMs].map((at) => Math.floor(at / ms) * ms);
    if (!slots.includes(fire)) {
      this.facts.world.violate('a slot is that of the call', `${call.text} has ${fire}, not ${slots.join(' or ')}`);
    }
  }

  get #serverDriftMs(): number {
    return this.facts.plan.profile.serverDrift * this.facts.world.now;
  }
}
