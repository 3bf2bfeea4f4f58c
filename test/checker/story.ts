import { check, scopeOf } from './check.js';
import { History } from './history.js';
import { type ChaosEvent, type WorkerEvent } from './events.js';

export type Fields<E extends ChaosEvent['e']> = Omit<Extract<ChaosEvent, { e: E }>, 't' | 'p' | 'e' | 'op'>;

const LEASE_MS = 1_000;

/** Writes a history by hand: `at(t)` sets the time, the process is the first word of the call's name. */
export class Story {
  readonly events: ChaosEvent[] = [];

  nemesis<E extends ChaosEvent['e']>(t: number, e: E, fields: Fields<E>): this {
    return this.#add({ t, p: 'nemesis', e, ...fields });
  }

  process<E extends WorkerEvent['e']>(t: number, p: string, e: E, fields: Fields<E>): this {
    return this.#add({ t, p, e, ...fields });
  }

  of<E extends WorkerEvent['e']>(t: number, op: string, e: E, fields: Fields<E>): this {
    return this.#add({ t, p: op.split(':')[0], op, e, ...fields });
  }

  call(t: number, op: string, fields: Partial<Fields<'call'>> = {}): this {
    return this.of(t, op, 'call', { keys: ['a'], mode: 'write', leaseMs: LEASE_MS, waitMs: 5_000, ...fields });
  }

  granted(t: number, op: string, token: number, untilMs: number | null = LEASE_MS): this {
    return this.of(t, op, 'granted', { tokens: [token], until: untilMs === null ? null : t + untilMs });
  }

  released(t: number, op: string): this {
    return this.of(t, op, 'releasing', {}).of(t + 1, op, 'released', { wasHeld: true });
  }

  /** It writes to the fenced register: one more than it has read. Without an answer, nothing is known of it. */
  counts(t: number, op: string, was: number, isAccepted: boolean | null = true): this {
    this.of(t, op, 'writes', { was });
    return isAccepted === null ? this : this.of(t + 5, op, 'wrote', { isAccepted });
  }

  transferred(t: number, op: string, leaseMs = LEASE_MS): this {
    return this.of(t, op, 'transferred', { asked: t, leaseMs }).of(t + 1, op, 'spent', { isHeld: false });
  }

  adopts(t: number, op: string, from: string, fields: Partial<Fields<'adopts'>> = {}): this {
    return this.of(t, op, 'adopts', { from, keys: ['a'], mode: 'write', leaseMs: LEASE_MS, ...fields });
  }

  /** A term of a leader, from its election until it is notified of its end, and until the end of its work. */
  led(from: number, to: number, op: string, token: number, { reason = 'resigned', workEndsAt = to } = {}): this {
    return this.of(from - 1, op, 'campaigns', { key: 'lead', leaseMs: LEASE_MS })
      .granted(from, op, token, to - from + 100)
      .of(to, op, 'demoted', { reason })
      .of(workEndsAt, op, 'released', { wasHeld: false });
  }

  /** A call from its begin to its release. */
  held(from: number, to: number, op: string, token: number, fields: Partial<Fields<'call'>> = {}): this {
    return this.call(from - 1, op, fields)
      .granted(from, op, token, to - from + 100)
      .released(to, op);
  }

  #add(event: object): this {
    this.events.push(event as ChaosEvent);
    return this;
  }
}

/** The rules that it breaks. */
export const rulesOf = (story: Story, isQuorum = false): string[] =>
  check(History.of(story.events), scopeOf(isQuorum ? 'quorum' : 'single', true)).map(({ rule }) => rule);
