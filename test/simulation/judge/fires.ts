import { type Held } from '../workload/call.js';
import { type Facts } from './facts.js';
import { type Change, type Rule } from './rule.js';

/** One run per fire of a job; with `rerunOnLoss`, one that ended without an outcome may be repeated. */
export class Fires implements Rule {
  /** The fire that an attempt claimed, as the server replied. */
  readonly #fireOf = new Map<string, string>();
  readonly #runs = new Map<string, Held[]>();
  /** On how many servers the outcome of a run is known. */
  readonly #confirmed = new Map<string, number>();

  constructor(private readonly facts: Facts) {}

  onChange({ script, reply }: Change): void {
    const attempt = script.name === 'inspect' ? '' : script.text('attempt');
    if (script.name === 'acquire' && reply[0] === 'granted' && reply[6] !== '')
      this.#fireOf.set(attempt, String(reply[6]));
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
