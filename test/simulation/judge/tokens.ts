import { type SimServer } from '../server/sim-server.js';
import { type Held } from '../workload/call.js';
import { type Facts, KEY_PREFIX } from './facts.js';
import { type Change, type NewGrant, type Rule } from './rule.js';

interface GrantedToken {
  readonly token: number;
  readonly mode: string;
  readonly owner: string | undefined;
  readonly name: string;
}

/** How many tokens of a key are compared with the next one. */
const REMEMBERED = 100;

/** Promise 8: tokens rise in the order of the grants. */
export class Tokens implements Rule {
  readonly #greatest = new Map<string, number>();
  readonly #granted = new Map<string, GrantedToken[]>();

  constructor(private readonly facts: Facts) {}

  onGrant({ server, key, attempt, hold, isReentry }: NewGrant): void {
    const id = this.#idOf(server, key);
    const greatest = this.#greatestOf(server, id);
    if (hold.token <= greatest && !isReentry) {
      const text = `${key}: ${this.facts.who(attempt)} has ${hold.token} after ${greatest}`;
      this.facts.world.violate('8: tokens rise', text);
    }
    this.#greatest.set(id, Math.max(greatest, hold.token));
  }

  /** The process of a writer uses the tokens behind that of its grant. */
  #onHandedOn({ hold, keys }: Held): void {
    const server = this.facts.authorityOf(KEY_PREFIX + keys[0]!);
    const id = this.#idOf(server, KEY_PREFIX + keys[0]!);
    this.#greatest.set(id, Math.max(this.#greatestOf(server, id), hold!.fencingToken));
  }

  /** A quorum may raise the token of a hold. */
  onChange({ server, key, script, lock }: Change): void {
    if (script.name !== 'writeBack') return;
    const id = this.#idOf(server, key);
    const hold = lock.holds.get(script.text('attempt'));
    this.#greatest.set(id, Math.max(this.#greatestOf(server, id), hold?.token ?? 0));
  }

  /** A replica that takes over goes on with the tokens of its master. */
  #idOf(server: SimServer, key: string): string {
    return this.facts.network.topology ? key : `${server.id} ${key}`;
  }

  /** After a loss of the data, tokens rise if the clock did not step back. */
  #greatestOf(server: SimServer, id: string): number {
    const greatest = this.#greatest.get(id) ?? 0;
    return server.wipes.length > 0 && greatest > server.micros ? 0 : greatest;
  }

  /** In a quorum, the tokens of exclusive holders rise across all majorities. */
  onHeld(held: Held): void {
    const { hold, lock, owner, call } = held;
    if (hold && hold.handedOn > 0) this.#onHandedOn(held);
    if (!this.facts.isQuorum || !hold || !lock.held || call.plan.options.owner !== undefined) return;
    // An adopted hold goes on with its token.
    if (call.plan.entry === 'adopt') return;
    for (const [i, key] of hold.keys.entries()) {
      const token = hold.fencingTokens[i]!;
      const before = this.#granted.get(key) ?? [];
      const isBroken = (one: GrantedToken): boolean =>
        one.token >= token && (one.mode === 'write' || lock.mode === 'write');
      const bad = before.find(isBroken);
      if (bad)
        this.facts.world.violate(
          '8: tokens rise',
          `${key}: ${call.text} has ${token} after ${bad.token} of ${bad.name}`,
        );
      before.push({ token, mode: lock.mode, owner, name: call.text });
      before.sort((a, b) => b.token - a.token).splice(REMEMBERED);
      this.#granted.set(key, before);
    }
  }
}
