import { EPOCH_MS } from '../world/sim-process.js';
import { type Call, type Held } from '../workload/call.js';
import { type Facts } from './facts.js';
import { type Change, type Rule } from './rule.js';

interface Run {
  readonly held: Held;
  readonly fire: number;
  isOver: boolean;
}

/** The clocks of a process and a server count the age of a call; either may be off by this. */
const ROUNDING_MS = 5;

/** A run that has ended is never repeated; a slot is that of the call, and a gap is kept. */
export class Runs implements Rule {
  readonly #fires = new Map<string, number>();
  readonly #runs = new Map<string, Run[]>();
  readonly #byAttempt = new Map<string, Run>();

  constructor(private readonly facts: Facts) {}

  onChange({ script, reply }: Change): void {
    if (script.name === 'acquire' && reply[0] === 'granted' && reply[6] !== '')
      this.#fires.set(script.text('attempt'), Number(reply[6]));
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
    if (again) this.#violate(held, `${id} ${fire} is run again after ${again.held.call.text}`);
    if (claim.kind === 'gap') this.#checkGap(id, run, before, claim.ms);
    if (claim.kind === 'slot') this.#checkSlot(held.call, fire, claim.ms);
  }

  #checkGap(id: string, { fire, held }: Run, before: readonly Run[], ms: number): void {
    if (this.facts.plan.profile.rates.stepClock || this.facts.isQuorum) return;
    const near = before.find((one) => one.isOver && fire - one.fire < ms);
    if (near) this.#violate(held, `${id} is run ${fire - near.fire} ms after ${near.held.call.text}`);
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

  #violate({ call }: Held, text: string): void {
    this.facts.world.violate('one run per fire', `${call.text}: ${text}`);
  }
}
