import { type DemotionReason } from '../../../lib/core/lock.events.js';
import { type LockLostReason } from '../../../lib/core/lock.errors.js';
import { type Lock } from '../../../lib/core/lock.js';
import { type AcquireReply, type AcquireRequest, type ReleaseRequest } from '../../../lib/core/store/lock-store.js';
import { type LeaderTerm } from '../../../lib/leader/leadership.js';
import { type Library } from '../library/library.js';
import { type ScriptRun } from '../../support/lua/lua.js';
import { type ReceivedScript, type ServerWatch, type SimServer } from '../server/sim-server.js';
import { type Application, type Candidate } from '../workload/application.js';
import { ABORTED, type Call, type Held, WORK_FAILED } from '../workload/call.js';
import { type HolderStep } from '../workload/plan.js';
import { type Facts, KEY_PREFIX } from './facts.js';
import { type LockView, lockOn } from '../../support/lua/lock-view.js';
import { type Change, type Rule, type SentCommand } from './rule.js';
import { type Reply, type ScriptCall, ScriptReader } from './script-reader.js';

/** Watches a run: reports what happens to all rules, and checks by itself what a call may return. */
export class Checker implements ServerWatch {
  readonly #reader: ScriptReader;
  /** When each attempt was sent first, perhaps for another call of its process. */
  readonly #firstAskedAt = new Map<string, number>();
  /** The attempt by which a hold was adopted last, by the one that had it before. */
  readonly #adoptedAs = new Map<string, string>();

  constructor(
    readonly facts: Facts,
    private readonly library: Library,
    private readonly rules: readonly Rule[],
  ) {
    this.#reader = new ScriptReader(library.scripts);
    facts.world.onEvent = () => {
      for (const rule of rules) rule.onEvent?.();
    };
  }

  /** Learns which attempts belong to which call. */
  watch(app: Application): void {
    const { facts } = this;
    app.locker.events.on('acquired', ({ where, attempt, local }) => {
      if (local) facts.count('handed on');
      const call = facts.calls.get(where);
      if (!call) return;
      call.granted.push(attempt);
      // It may have been asked for by another call of the process, which was cancelled or has handed the lock on.
      facts.callOf.set(attempt, call);
      const hold = app.holdOf(attempt);
      if (hold) for (const rule of this.rules) rule.onAcquired?.(call, hold);
    });
    app.locker.events.on('adopted', ({ attempt, from }) => void this.#adoptedAs.set(from, attempt));
    app.locker.events.on('acquireFailed', ({ where }) => {
      const call = facts.calls.get(where);
      if (call) for (const rule of this.rules) rule.onFailed?.(call);
    });
    this.#watchStore(app);
  }

  #watchStore(app: Application): void {
    const { store } = app;
    const tell = (command: Omit<SentCommand, 'app'>): void => {
      for (const rule of this.rules) rule.onSent?.({ app, ...command });
    };
    const renew = store.renew.bind(store);
    const onAsked = ({ attempt, keys, holder }: AcquireRequest): void => {
      this.#onAsked(attempt, holder);
      tell({ name: 'acquire', attempt, keys });
    };
    const onAnswered = (attempt: string, reply: AcquireReply): void =>
      this.#onAnswered(attempt, 'unanswered' in reply && reply.unanswered ? null : reply.outcome);
    const onFailed = (attempt: string, error: unknown): void =>
      this.#onAnswered(attempt, (error as { wasSent?: boolean }).wasSent === false ? 'not sent' : null);
    const onReleasing = ({ attempt, key }: ReleaseRequest): void => tell({ name: 'release', attempt, keys: [key] });
    const [acquire, release] = [store.acquire.bind(store), store.release.bind(store)];
    store.acquire = (request, ...rest) => {
      const { attempt } = request;
      onAsked(request);
      const answer = acquire(request, ...rest);
      answer.then(
        (reply) => onAnswered(attempt, reply),
        (error: unknown) => onFailed(attempt, error),
      );
      return answer;
    };
    store.release = (request, timeoutMs) => {
      onReleasing(request);
      return release(request, timeoutMs);
    };
    store.renew = (requests) => {
      for (const { attempt, key, leaseMs, mode } of requests) {
        const name = leaseMs === 0 && mode === 'read' ? 'downgrade' : 'renew';
        tell({ name, attempt, keys: [key], leaseMs });
      }
      return renew(requests);
    };
  }

  #onAnswered(attempt: string, outcome: string | null): void {
    for (const rule of this.rules) rule.onAnswered?.(attempt, outcome);
  }

  tick(): void {
    for (const rule of this.rules) rule.onTick?.();
  }

  end(): void {
    for (const rule of this.rules) rule.onEnd?.();
  }

  conclude(): void {
    for (const rule of this.rules) rule.conclude?.();
  }

  onCall(call: Call): void {
    this.facts.calls.set(call.name, call);
    this.facts.pending.add(call);
    for (const rule of this.rules) rule.onCall?.(call);
  }

  onSettled(call: Call, error: unknown): void {
    const { facts, library } = this;
    const { world } = facts;
    call.outcome = error === undefined ? 'granted' : error === 'busy' ? 'busy' : nameOf(error);
    call.settledAt = world.now;
    facts.pending.delete(call);
    facts.count(call.outcome);
    world.digest.text(`${call.name} ${call.outcome}`);
    world.log(
      () => `${call.process.name} ${call.name} ${call.outcome}${error instanceof Error ? `: ${error.message}` : ''}`,
    );
    const isKnown = error === undefined || error === 'busy' || error === ABORTED || error instanceof library.LockError;
    if (!isKnown) world.violate('errors are typed', `${call.text}: ${textOf(error)}`);
    for (const rule of this.rules) rule.onSettled?.(call, call.outcome, error);
  }

  onHeld(call: Call, lock: Lock): Held {
    const { facts } = this;
    const { world } = facts;
    const attempt = call.granted.at(-1) ?? '';
    const hold = call.app.holdOf(attempt);
    const { keys, mode } = lock;
    const ownAskedAt = Math.min(call.askedAt, this.#firstAskedAt.get(attempt) ?? Infinity);
    const askedAt = hold ? ownAskedAt : (call.outer?.held?.askedAt ?? call.startedAt);
    const moments = { grantedAt: world.now, askedAt, releasedAt: Infinity, wantedUntil: Infinity, doneAt: Infinity };
    const { owner } = call.plan.options;
    const held: Held = { call, lock, hold, attempt, keys, mode, owner, lost: null, ...moments };
    call.held = held;
    facts.held.add(held);
    // On a cluster, a lock of several slots has several holds; the others are held as long as this one.
    for (const other of call.granted.slice(0, -1)) {
      const part = call.app.holdOf(other);
      if (part) facts.held.add(Object.create(held, { hold: { value: part }, attempt: { value: other } }) as Held);
    }
    hold?.onLost(({ reason }) => this.#onLost(held, reason));
    for (const rule of this.rules) rule.onHeld?.(held);
    return held;
  }

  #onLost(held: Held, reason: LockLostReason): void {
    const { facts } = this;
    held.lost = reason;
    facts.count(`lost: ${reason}`);
    facts.world.log(() => `${held.call.process.name} ${held.call.name} hears of its loss: ${reason}`);
    for (const rule of this.rules) rule.onLost?.(held);
  }

  onReleasing(held: Held): void {
    const { now } = this.facts.world;
    held.releasedAt = now;
    held.wantedUntil = now + held.lock.remainingMs;
    // The end of a dropped handle will not be reported.
    if (held.call.plan.isDropped) this.#forget(held);
    this.facts.world.log(() => `${held.call.process.name} ${held.call.name} releases`);
    for (const rule of this.rules) rule.onReleasing?.(held);
  }

  /** The handle is gone, and its release is not reported. */
  onDropped(held: Held): void {
    this.#forget(held);
  }

  #forget({ call }: Held): void {
    for (const held of this.facts.held) if (held.call === call) this.facts.held.delete(held);
  }

  onReleased(held: Held, wasHeld: boolean): void {
    const { world } = this.facts;
    held.doneAt = world.now;
    this.#forget(held);
    world.log(() => `${held.call.process.name} ${held.call.name} has released`);
    if (held.lock.held) world.violate('a released lock is not held', held.call.text);
    for (const rule of this.rules) rule.onReleased?.(held, wasHeld, held.doneAt - held.releasedAt);
  }

  /** The holder has transferred its lock; `wasHeld`: the result of a release after that. */
  onTransferred(held: Held, wasHeld: boolean, asked: number): void {
    const { world } = this.facts;
    held.doneAt = world.now;
    this.#forget(held);
    this.facts.count('transferred');
    world.log(() => `${held.call.process.name} ${held.call.name} has transferred its lock`);
    for (const rule of this.rules) rule.onTransferred?.(held, wasHeld, asked);
  }

  /** A call adopts the lock of another one. Faults since that one asked for it also excuse this one. */
  onAdopted(from: Held, call: Call, lock: Lock): Held {
    const { facts } = this;
    const attempt = this.#adoptedAs.get(from.attempt)!;
    call.granted.push(attempt);
    Object.assign(call, { outcome: 'granted', settledAt: facts.world.now, askedAt: from.askedAt });
    facts.calls.set(call.name, call);
    facts.callOf.set(attempt, call);
    facts.count('adopted');
    facts.world.digest.text(`${call.name} adopted`);
    const held = this.onHeld(call, lock);
    for (const rule of this.rules) rule.onAdopted?.(from, held);
    return held;
  }

  onNotAdopted(from: Held, call: Call, error: unknown): null {
    const { facts } = this;
    facts.count(`adopt: ${nameOf(error)}`);
    facts.world.log(() => `${call.process.name} ${call.name} adopts nothing: ${textOf(error)}`);
    if (!(error instanceof this.library.LockError)) this.#violate('errors are typed', call, textOf(error));
    for (const rule of this.rules) rule.onNotAdopted?.(from, call, nameOf(error));
    return null;
  }

  onCampaign(candidate: Candidate): void {
    for (const rule of this.rules) rule.onCampaign?.(candidate);
  }

  onElected(candidate: Candidate, term: LeaderTerm): void {
    const { world } = this.facts;
    this.facts.count('elected');
    world.digest.text(`${candidate.text} ${term.fencingToken}`);
    world.log(() => `${candidate.text} is elected`);
    for (const rule of this.rules) rule.onElected?.(candidate, term);
  }

  onDemoted(candidate: Candidate, term: LeaderTerm, reason: DemotionReason): void {
    this.facts.count(`demoted: ${reason}`);
    this.facts.world.log(() => `${candidate.text} is demoted: ${reason}`);
    for (const rule of this.rules) rule.onDemoted?.(candidate, term, reason);
  }

  /** A leader has ended the work of its term. */
  onWorked(candidate: Candidate, term: LeaderTerm): void {
    for (const rule of this.rules) rule.onWorked?.(candidate, term);
  }

  /** The work under the lock returned, and so did the call. */
  onWorkReturned(call: Call, result: unknown): void {
    const held = call.held!;
    if (held.lost) this.#violate('4: a loss is always reported', call, `returned although it was lost: ${held.lost}`);
    if (result !== call.name) this.#violate('the result is that of the work', call, String(result));
    this.onReleased(held, true);
  }

  /** The work was done, and the call rejects. */
  onWorkRejected(call: Call, error: unknown): void {
    const isOfWork = call.plan.claim?.ends === 'failed';
    if (isOfWork && error !== WORK_FAILED) this.#violate('9: errors of the work pass untouched', call, textOf(error));
    if (!isOfWork && !(error instanceof this.library.LockLostError))
      this.#violate('errors are typed', call, textOf(error));
    if (!isOfWork && (error as { result?: unknown }).result !== call.name) {
      this.#violate('the result is that of the work', call, textOf(error));
    }
    this.onReleased(call.held!, false);
  }

  onStep(held: Held, step: HolderStep): void {
    for (const rule of this.rules) rule.onStep?.(held, step);
  }

  onExtended({ lock, call, grantedAt }: Held, leaseMs: number, from: { at: number; mono: number }): void {
    this.facts.count('extended');
    const { process } = call;
    const wasStopped = process.stops.some(({ to }) => to >= from.at);
    // Proven from before the command was sent, less one per cent and three milliseconds, as floating-point numbers.
    const least = leaseMs * 0.99 - 3.001 - (process.clock.now() - from.mono);
    if (!lock.held || lock.remainingMs >= least || wasStopped || process.wallSetAt >= grantedAt) return;
    this.#violate('an extension lasts', call, `wanted ${leaseMs} ms, has ${lock.remainingMs.toFixed(0)} ms`);
  }

  onDowngraded({ lock, call }: Held): void {
    this.facts.count('downgraded');
    if (lock.mode !== 'read') this.#violate('a downgraded lock reads', call, lock.mode);
  }

  onStepFailed({ call }: Held, step: string, error: unknown): void {
    this.facts.count(`${step}: ${nameOf(error)}`);
    if (!(error instanceof this.library.LockError)) this.#violate('errors are typed', call, textOf(error));
    const { isCalm } = this.facts.plan.profile;
    if (isCalm && error instanceof this.library.LockStoreError)
      this.#violate('nothing fails in calm', call, textOf(error));
  }

  /** The simulation itself failed. */
  onUnexpected(call: Call, error: unknown): void {
    this.#violate('errors are typed', call, textOf(error));
  }

  onScript(
    server: SimServer,
    script: ReceivedScript,
    { reply, steps }: ScriptRun,
    apply: (step: number) => void,
  ): void {
    const { calls, isBatch } = this.#reader.read(script);
    const replies = this.#reader.repliesOf(reply, isBatch);
    let next = 0;
    for (const [i, call] of calls.entries()) {
      const before = call.keys.map((key) => lockOn(server, key));
      const last = isBatch ? next + 1 : steps.length;
      const isChanged = steps.slice(next, last).some((changes) => changes.length > 0);
      while (next < last) apply(next++);
      const parts = replies[i] ?? null;
      // An error is of interest only if something was written before it.
      if (parts ?? isChanged) this.#onCall(server, call, parts ?? ['failed'], before);
    }
    while (next < steps.length) apply(next++);
  }

  #onCall(server: SimServer, script: ScriptCall, reply: Reply, before: readonly LockView[]): void {
    const { facts } = this;
    const { world } = facts;
    world.log(() => `${server.name} ${script.name} ${facts.who(script.text('attempt'))} -> ${reply.join(' ')}`);
    for (const [i, key] of script.keys.entries()) {
      const lock = lockOn(server, key);
      const now = Math.floor(server.micros / 1_000);
      const live = [...lock.holds].filter(([, hold]) => hold.deadline > now);
      const change: Change = { server, script, reply, key, before: before[i]!, lock, now, live };
      world.log(() => `   ${key} ${facts.show(server, key)}`);
      if (facts.isStale(server, key)) facts.failovers.onStale(change);
      if (script.name === 'forceRelease') this.#onRevoked(change);
      for (const rule of this.rules) rule.onChange?.(change);
      this.#findGrants(change);
    }
  }

  onWiped(): void {
    this.facts.count('wipes');
    this.facts.forget('all');
  }

  #findGrants(change: Change): void {
    const { before, lock, now } = change;
    // An adoption is not a grant: the hold is the same.
    if (['inspect', 'adopt'].includes(change.script.name)) return;
    // Several of one script: in their order, which is that of their tokens.
    for (const [attempt, hold] of [...lock.holds].sort(([, a], [, b]) => a.token - b.token)) {
      const was = before.holds.get(attempt);
      // A quorum writes its token back to a hold, which is not a grant.
      const isOld = was && was.deadline > now && (was.token === hold.token || change.script.name === 'writeBack');
      if (isOld || hold.token === 0) continue;
      this.facts.count('grants');
      const grant = { ...change, attempt, hold, isReentry: isReentry(change, attempt) };
      for (const rule of this.rules) rule.onGrant?.(grant);
    }
  }

  #onRevoked({ before, now, key }: Change): void {
    this.facts.revokedAt = this.facts.world.now;
    this.facts.forget([key.slice(KEY_PREFIX.length)]);
    for (const [attempt, { deadline }] of before.holds) if (deadline > now) this.facts.revoked.add(attempt);
  }

  #onAsked(attempt: string, holder: string): void {
    const { facts } = this;
    const call = facts.calls.get(holder.split(/[ \t]/)[1] ?? '');
    if (!this.#firstAskedAt.has(attempt)) this.#firstAskedAt.set(attempt, facts.world.now);
    // An attempt continues for another call when its own is cancelled.
    if (!call || facts.callOf.get(attempt) === call) return;
    facts.callOf.set(attempt, call);
    call.attempts.push(attempt);
    call.askedAt = Math.min(call.askedAt, facts.world.now);
  }

  #violate(rule: string, call: Call, text: string): void {
    this.facts.world.violate(rule, `${call.text}: ${text}`);
  }
}

/** Whether this hold re-enters a lock that its owner holds, and has a token that the owner had. */
function isReentry({ lock }: Change, attempt: string): boolean {
  const hold = lock.holds.get(attempt)!;
  if (hold.owner === undefined) return false;
  return [...lock.holds].some(
    ([other, { owner, token, entry }]) => other !== attempt && owner === hold.owner && token > 0 && entry >= hold.token,
  );
}

const nameOf = (error: unknown): string =>
  error === ABORTED ? 'aborted' : error instanceof Error ? error.name : typeof error;

const textOf = (error: unknown): string => (error instanceof Error ? (error.stack ?? error.message) : String(error));
