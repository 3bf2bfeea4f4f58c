import { type LeaderTerm } from '../../../lib/leader/leadership.js';
import { type DemotionReason } from '../../../lib/core/lock.events.js';
import { leaders, transfers } from '../../checker/deeds.js';
import { type ChaosEvent } from '../../checker/events.js';
import { exclusion } from '../../checker/locks.js';
import { lossTold } from '../../checker/losses.js';
import { fencing } from '../../checker/fencing.js';
import { fencedWrites, Resource } from '../../checker/registers.js';
import { callsSettle, FIRST_ANSWER_MS, firstInFirstOut, noLostWakeUp } from '../../checker/waits.js';
import { type Candidate } from '../workload/application.js';
import { type Call, type Held } from '../workload/call.js';
import { type HolderStep } from '../workload/plan.js';
import { type SimProcess } from '../world/sim-process.js';
import { Scope, type Rule } from './rule.js';

/** The share of a lease that is there for sure after a transfer: the extension was sent a little earlier, and clocks drift. */
const SAFE_SHARE = 0.9;

type WithoutTime<E> = E extends unknown ? Omit<E, 't'> & { readonly t?: number } : never;

/** Writes down what callers see, as the workers of chaos do, and has the same checker read it in the end (test/checker). */
export class Callers extends Scope implements Rule {
  readonly #history = this.facts.history;
  readonly #processes = new Set<SimProcess>();
  /** The present term of each candidate, or the next one. */
  readonly #terms = new Map<Candidate, string>();
  readonly #opOf = new Map<LeaderTerm, string>();
  /** A resource under the locks, and what writers have read of it. */
  readonly #resource = new Resource();
  readonly #read = new Map<Call, number>();

  onCall(call: Call): void {
    if (!call.outer) return this.#noteCall(call);
    const withinMs = Math.max(this.#waitMs(call), FIRST_ANSWER_MS);
    this.#note({ ...this.#of(call), e: 'asks', what: 'the nested call', withinMs });
  }

  /** A nested call may have waited for its siblings, and needs a first answer then; a call that does not wait fails before. */
  #waitMs(call: Call): number {
    const firstAnswerMs = call.outer && call.waitMs > 0 ? FIRST_ANSWER_MS : 0;
    return call.waitMs + Math.max(firstAnswerMs, this.facts.givingBackMs(call));
  }

  #noteCall(call: Call): void {
    const { mode = 'write', owner, holdAtLeastMs = 0, fair = true } = call.plan.options;
    const waitMs = this.#waitMs(call);
    const fire = call.plan.claim && { fire: call.plan.claim.ms };
    const asked = { ...termsOf(call), ...ownerOf(owner), ...fire, fair, holdAtLeastMs, mode };
    const isNested = call.outer !== null;
    this.#note({ ...this.#of(call), ...asked, isNested, e: 'call', t: call.startedAt, waitMs });
  }

  onSettled(call: Call, outcome: string): void {
    if (call.outer) this.#note({ ...this.#of(call), e: 'answered', what: 'the nested call' });
    if (outcome !== 'granted') this.#note({ ...this.#of(call), e: 'failed', code: codeOf(outcome) });
  }

  /** A nested call counts only if it has a separate hold. */
  onHeld({ call, hold, lock, owner }: Held): void {
    if (call.outer && hold) this.#noteCall(call);
    if (call.plan.entry !== 'adopt') this.#noteGrant(call, lock);
    if (lock.mode !== 'write' || owner !== undefined || call.outer) return;
    const { fenced } = this.#resource.answer({ read: call.plan.keys[0]!, token: lock.fencingTokens[0]! });
    if (typeof fenced === 'number') this.#read.set(call, fenced);
  }

  /** Counts up what it has read, in the resource, whether it still holds the lock or not: the token keeps a late write out. */
  #write({ call, lock }: Held): void {
    const fenced = this.#read.get(call);
    if (fenced === undefined || lock.mode !== 'write') return;
    this.#note({ ...this.#of(call), e: 'writes', was: fenced });
    const write = { write: call.plan.keys[0]!, token: lock.fencingTokens[0]!, plain: 0, fenced };
    this.#note({ ...this.#of(call), e: 'wrote', isAccepted: this.#resource.answer(write).isAccepted! });
  }

  #noteGrant(call: Call, { fencingTokens: tokens, held }: Held['lock']): void {
    this.#note({ ...this.#of(call), e: 'granted', tokens, until: held ? this.facts.world.now : -Infinity });
  }

  onStep({ call }: Held, { does, leaseMs }: HolderStep): void {
    if (does === 'downgrade') this.#note({ ...this.#of(call), e: 'reads' });
    if (does === 'extend') this.#note({ ...this.#of(call), e: 'longer', leaseMs: leaseMs! });
  }

  onLost({ call, lost }: Held): void {
    this.#note({ ...this.#of(call), e: 'lost', reason: lost! });
  }

  onReleasing(held: Held): void {
    this.#write(held);
    const { call } = held;
    this.#note({ ...this.#of(call), e: 'releasing' });
    // The end of a dropped handle is not reported.
    if (!call.plan.isDropped) this.#note({ ...this.#of(call), e: 'asks', what: 'release', withinMs: FIRST_ANSWER_MS });
  }

  /** A release that is not waited for may come to the server at any time of the lease. */
  onReleased({ call }: Held, wasHeld: boolean): void {
    const isConfirmed = wasHeld && call.plan.options.awaitRelease !== false && !call.plan.nested;
    this.#note({ ...this.#of(call), e: 'released', wasHeld: isConfirmed });
    this.#note({ ...this.#of(call), e: 'answered', what: 'release' });
  }

  onTransferred({ call, lock }: Held, wasHeld: boolean, asked: number): void {
    const leaseMs = call.leaseMs * SAFE_SHARE;
    this.#note({ ...this.#of(call), e: 'transferred', asked, leaseMs, mode: lock.mode });
    this.#note({ ...this.#of(call), e: 'spent', isHeld: lock.held || wasHeld });
  }

  onAdopted(from: Held, { call, lock }: Held): void {
    this.#noteAdoption(from, call, lock.mode);
    this.#noteGrant(call, lock);
  }

  onNotAdopted(from: Held, call: Call, error: string): void {
    this.#noteAdoption(from, call, from.lock.mode);
    this.#note({ ...this.#of(call), e: 'failed', code: codeOf(error) });
  }

  #noteAdoption(from: Held, call: Call, mode: 'read' | 'write'): void {
    const asked = { ...termsOf(from.call), ...ownerOf(from.owner), mode };
    this.#note({ ...this.#of(call), ...asked, e: 'adopts', t: call.startedAt, from: from.call.name });
  }

  onCampaign(candidate: Candidate): void {
    const { app, plan } = candidate;
    const op = `term ${this.#history.calls.size} of ${candidate.text}`;
    this.#terms.set(candidate, op);
    this.#note({ e: 'campaigns', op, p: this.#nameOf(app.process), key: plan.key, leaseMs: plan.leaseMs });
  }

  onElected(candidate: Candidate, term: LeaderTerm): void {
    const until = this.facts.world.now;
    this.#opOf.set(term, this.#terms.get(candidate)!);
    this.#note({ ...this.#ofTerm(candidate), e: 'granted', tokens: [term.fencingToken], until });
  }

  /** Its work may end after its term. */
  onWorked({ app }: Candidate, term: LeaderTerm): void {
    const op = this.#opOf.get(term)!;
    this.#note({ op, p: app.process.name, e: 'released', wasHeld: true });
  }

  onDemoted(candidate: Candidate, _term: LeaderTerm, reason: DemotionReason): void {
    this.#note({ ...this.#ofTerm(candidate), e: 'demoted', reason });
    this.onCampaign(candidate);
  }

  /** Who holds a lock looks at it after each event. */
  onEvent(): void {
    const { held, world } = this.facts;
    for (const { call, lock, releasedAt } of held) {
      const record = this.#history.calls.get(call.name);
      if (record?.grantedAt !== undefined && releasedAt === Infinity && lock.held) record.until = world.now;
    }
    for (const [{ app, leadership }, op] of this.#terms) {
      if (app.process.isDead || !leadership.isLeader()) continue;
      const record = this.#history.calls.get(op)!;
      record.until = world.now;
      record.acts.splice(0, 1, world.now);
    }
  }

  /** At the end of the run, or when another rule is broken. */
  conclude(): void {
    const { facts } = this;
    const history = this.#history;
    history.endedAt = facts.world.now;
    history.stoppingAt = Math.min(history.stoppingAt, facts.world.now);
    for (const { name, stops, diedAt } of this.#processes) {
      const process = history.process(name);
      process.standstills.push(...stops);
      process.sleeps.push(...stops.filter(({ isSleep }) => isSleep));
      if (diedAt < Infinity) process.endedAt = diedAt;
    }
    for (const [key, totals] of this.#resource.totals()) history.resources.set(key, totals);
    const rules = [
      exclusion,
      fencing(facts.isQuorum),
      fencedWrites,
      lossTold,
      transfers,
      leaders,
      callsSettle,
      ...(facts.isQuorum ? [] : [noLostWakeUp]),
      // Where packets are sent again, waiters lose their places: each packet delays the poll of all behind it.
      ...(facts.isQuorum || facts.plan.profile.network.resend > 0 ? [] : [firstInFirstOut]),
    ];
    for (const { rule, t, text } of rules.flatMap((rule) => rule(history))) facts.world.violate(rule, text, t);
  }

  #of({ name, process }: Call): { readonly op: string; readonly p: string } {
    return { op: name, p: this.#nameOf(process) };
  }

  #ofTerm(candidate: Candidate): { readonly op: string; readonly p: string } {
    return { op: this.#terms.get(candidate)!, p: this.#nameOf(candidate.app.process) };
  }

  #nameOf(process: SimProcess): string {
    this.#processes.add(process);
    return process.name;
  }

  #note(event: WithoutTime<ChaosEvent>): void {
    this.#history.add({ t: this.facts.world.now, ...event });
  }
}

/** The code of an error: LOCK_WAIT_TIMEOUT of a LockWaitTimeoutError. */
const codeOf = (name: string): string =>
  name
    .replace(/Error$/, '')
    .replaceAll(/(?<=[a-z])[A-Z]/g, (letter) => `_${letter}`)
    .toUpperCase();

/** What a call asks for, and the longest lease that it may get. */
function termsOf({ plan, leaseMs }: Call) {
  const { permits = 0, take = 1, holdAtLeastMs = 0 } = plan.options;
  const leases = plan.steps.map((step) => step.leaseMs ?? 0);
  return { keys: plan.keys, permits, take, leaseMs: Math.max(leaseMs, holdAtLeastMs, ...leases) };
}

/** Both name the owner `-`. */
const ownerOf = (owner: string | undefined) => (owner === undefined ? {} : { owner: owner === '-' ? '%2D' : owner });

/** Once nothing is wrong: the longest lease of a dead leader, the pause of one that resigned, and the way of the next one to Redis. */
const ELECTED_WITHIN_MS = 20_000;

/** A lead has a leader in the end, and each term ends once, for all at once. */
export class Leads extends Scope implements Rule {
  readonly #candidates = new Map<string, Candidate[]>();
  /** The terms that processes were notified of, and that are not over. */
  readonly #terms = new Map<Candidate, LeaderTerm>();
  /** When a lead had a leader last. */
  readonly #ledAt = new Map<string, number>();

  onCampaign(candidate: Candidate): void {
    const { key } = candidate.plan;
    this.#candidates.set(key, [...(this.#candidates.get(key) ?? []), candidate]);
    if (!this.#ledAt.has(key)) this.#ledAt.set(key, this.facts.world.now);
  }

  onElected(candidate: Candidate, term: LeaderTerm): void {
    if (this.#terms.has(candidate)) this.#violate('each term ends once', candidate, 'it is elected in its term');
    this.#terms.set(candidate, term);
    // A term may be shorter than the time between two ticks.
    this.#ledAt.set(candidate.plan.key, this.facts.world.now);
  }

  onDemoted(candidate: Candidate, term: LeaderTerm, reason: DemotionReason): void {
    if (this.#terms.get(candidate) !== term)
      this.#violate('each term ends once', candidate, `notified of ${reason} again`);
    if (!term.signal.aborted)
      this.#violate('a term ends for all at once', candidate, `its signal does not report ${reason}`);
    this.#terms.delete(candidate);
  }

  onTick(): void {
    const { now } = this.facts.world;
    for (const [key, candidates] of this.#candidates) {
      if (candidates.some(({ app, leadership }) => !app.process.isDead && leadership.isLeader()))
        this.#ledAt.set(key, now);
      const campaigning = candidates.filter(({ app }) => !app.process.isDead && !app.process.isClosing);
      if (campaigning.length === 0) continue;
      const wellSince = campaigning.map(({ app }) => this.facts.recoveredAt(app.process));
      const leaderlessMs = now - Math.max(this.#ledAt.get(key)!, ...wellSince);
      if (leaderlessMs > ELECTED_WITHIN_MS)
        this.#violate('one is elected', campaigning[0]!, `none for ${leaderlessMs} ms`);
    }
  }

  #violate(rule: string, { text }: Candidate, what: string): void {
    this.facts.world.violate(`leaders: ${rule}`, `${text}: ${what}`);
  }
}
