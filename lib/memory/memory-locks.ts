import { type FireClaim } from '../core/store/fires.js';
import { readHolderText, waitsUntil } from '../core/store/holder-text.js';
import { type LastRun, type LockState, modeOf, permitsOf } from '../core/store/lock-state.js';
import {
  type AcquireReply,
  type AcquireRequest,
  type AdoptReply,
  type AdoptRequest,
  type LostReply,
  type ReleaseReply,
  type ReleaseRequest,
  type RenewReply,
  type RenewRequest,
  TOKENS_OF_A_WRITER,
  type WakeUp,
} from '../core/store/lock-store.js';
import { type LockMode } from '../core/lock.errors.js';

/** An acquire with the age of its call: the clock of a client is not valid here. */
type Request = Omit<AcquireRequest, 'claim'> & { readonly claim?: Claim | undefined };
type Claim = Omit<FireClaim, 'calledAt'> & { readonly ageMs: number };

/** One hold. With token 0 it is parked: without a holder, it keeps the lock taken until `holdAtLeastMs` is over. */
interface Hold {
  readonly owner: string | undefined;
  holder: string;
  readonly since: number;
  readonly take: number;
  readonly permits: number;
  mode: LockMode;
  token: number;
  /** The token with which the next one of its owner re-enters. */
  entry: number;
  until: number;
  leaseMs: number;
}

/** One place in the queue. */
interface Waiter {
  request: Request;
  readonly since: number;
  until: number;
  /** The `changes` of the lock when the waiter last learned whether it is its turn: it is woken once per change. */
  knows: number;
}

/** The last run of a job. */
interface Run {
  readonly fire: number;
  readonly attempt: string;
  readonly instance: string;
  readonly started: number;
  ended?: number;
  outcome?: 'done' | 'failed';
}

interface Job {
  fires: number[];
  run: Run | undefined;
  until: number;
}

/** One lock. Holds and waiters are kept by their attempts, in the order in which they came. */
class MemoryLock {
  /** The last fencing token. */
  token = 0;
  readonly holds = new Map<string, Hold>();
  readonly waiters = new Map<string, Waiter>();
  /** The attempts that ended recently: a repeated acquire of them must not get the lock. */
  readonly ended = new Map<string, 'again' | 'revoked' | 'lost'>();
  readonly jobs = new Map<string, Job>();
  /** The number of permits, if an operator has set it. */
  permits: number | undefined;
  /** Grows whenever a waiter may fit that did not fit before. */
  changes = 0;
  /** The time of the last command, and how long after it the lock is remembered. */
  now = 0;
  keepMs = 0;
}

const ENDED_REMEMBERED = 32;
const FIRES_REMEMBERED = 16;

const NO_READER = { token: 0, permits: 0 };

/** How long the permits that an operator has set are remembered. */
const PERMITS_KEPT_MS = 30 * 24 * 3_600_000;

/** How often unused locks are removed. */
const FORGET_EVERY_MS = 60_000;

/** Tokens are as large as in production even with a clock that starts in 1970: a test finds a column that is too small. */
const LEAST_TOKEN = 2 ** 50;

/** What the locks need from their server. */
export interface LocksContext {
  /** The time in whole milliseconds since the epoch. */
  readonly now: () => number;
  /** Whether the client of an attempt listens. */
  readonly hears: (attempt: string) => boolean;
  readonly notify: (attempt: string, wakeUp: WakeUp) => void;
}

/** The locks of one server. Each command reads the time once, and completes within one turn. */
export class MemoryLocks {
  /** Whether holds exclude others; false for a fake, which grants every request. */
  excludes = true;
  /** How long the next command keeps its lock remembered when it is unused. */
  keepMs = 600_000;
  readonly all = new Map<string, MemoryLock>();
  /** The greatest token of all locks, including forgotten ones. */
  #greatest = LEAST_TOKEN;
  #forgotAt = 0;

  constructor(private readonly context: LocksContext) {}

  /** Grants all keys, or none; then the attempt waits for each up to the first busy one. */
  acquire(request: Request): AcquireReply {
    const { attempt, keys, fair } = request;
    const now = this.context.now();
    const locks = keys.map((key) => this.#open(key, attempt, now));
    const refused = locks.map((lock) => this.#refusal(lock, request)).find((reply) => reply !== undefined);
    if (refused) {
      for (const lock of locks) this.#leave(lock, attempt);
      return refused;
    }
    const needs = locks.map((lock) => !liveHold(lock, attempt) && entryToken(lock, request) === undefined);
    const isBusy = (lock: MemoryLock, i: number): boolean =>
      this.excludes && needs[i]! && !(admits(lock, request) && (!fair || this.#isFirst(lock, attempt)));
    const busy = locks.findIndex(isBusy);
    if (busy < 0) return this.#grantAll(locks, request);
    const lock = locks[busy]!;
    const isFull = isFullFor(lock, request);
    for (const [i, one] of locks.entries()) {
      if (isFull || i > busy) this.#leave(one, attempt);
      else if (needs[i] || one.waiters.has(attempt)) join(one, request);
    }
    return { ...busyReply(lock, attempt), isFull };
  }

  /** Ends a hold or a place in the queue. */
  release({ key, attempt, holdAtLeastMs, job, runOutcome, isRepeated }: ReleaseRequest): ReleaseReply {
    const wasHeld = this.all.get(key)?.holds.has(attempt) ?? false;
    const lock = this.#open(key);
    const hold = liveHold(lock, attempt);
    const outcome = outcomeOfRelease(lock, attempt, wasHeld);
    if (runOutcome && (hold || runOutcome === 'void')) endRun(lock, job, { attempt, runOutcome });
    const wasFirst = firstWaiter(lock) === attempt;
    remember(lock, attempt, outcome === 'unknown' && !isRepeated ? 'lost' : 'again');
    if (hold) remove(lock, lock.holds, attempt);
    const parkedUntil = hold ? Math.min(hold.since, lock.now) + holdAtLeastMs : 0;
    if (hold && parkedUntil > lock.now) {
      const parked = { token: 0, holder: '', until: parkedUntil, leaseMs: parkedUntil - lock.now };
      lock.holds.set(attempt, { ...hold, ...parked });
    }
    this.#leave(lock, attempt);
    // Only the first waiter asks when the holder's lease may be over.
    const next = outcome === 'cancelled' && wasFirst ? firstWaiter(lock) : undefined;
    if (next !== undefined) this.context.notify(next, { kind: 'wake' });
    return { outcome, holds: lock.holds.size, lastToken: lock.token };
  }

  renew({ key, attempt, fencingToken, leaseMs, mode, holder, hasNewHolder }: RenewRequest): RenewReply {
    const lock = this.#open(key);
    const hold = liveHold(lock, attempt, fencingToken);
    if (!hold) return lostReply(lock, attempt);
    stretch(lock, hold, leaseMs);
    if (hasNewHolder) hold.holder = holder;
    if (mode === 'read') this.#makeRead(lock, hold);
    return { outcome: 'renewed', remainingMs: hold.until - lock.now };
  }

  /** Moves the hold of one attempt to another attempt. */
  adopt({ key, attempt, from, fencingToken, holder, leaseMs }: AdoptRequest): AdoptReply {
    const lock = this.#open(key);
    let hold = liveHold(lock, attempt, fencingToken);
    if (!hold) {
      const given = lock.ended.has(attempt) ? undefined : liveHold(lock, from, fencingToken);
      if (!given) return lostReply(lock, lock.ended.get(from) === 'revoked' ? from : attempt);
      hold = { ...given, holder };
      remember(lock, from, 'again');
      remove(lock, lock.holds, from);
      lock.holds.set(attempt, hold);
    }
    stretch(lock, hold, leaseMs);
    return { outcome: 'adopted', remainingMs: hold.until - lock.now };
  }

  /** Ends all holds, and notifies the holders; returns whether there were holders. */
  forceRelease(key: string, upToToken = Infinity): boolean {
    const lock = this.#open(key);
    // A parked hold no longer has a token: the time of its grant is compared.
    const grantedAt = ({ token, since }: { token: number; since: number }): number =>
      token > 0 ? token : Math.min(since * 1_000, lock.token);
    const attempts = [...lock.holds].filter(([, hold]) => grantedAt(hold) <= upToToken).map(([attempt]) => attempt);
    for (const attempt of attempts) {
      if (liveHold(lock, attempt)) this.context.notify(attempt, { kind: 'revoked' });
      remember(lock, attempt, 'revoked');
      remove(lock, lock.holds, attempt);
    }
    this.#serve(lock);
    return attempts.length > 0;
  }

  /** Sets the number of permits, whatever the requests contain; undefined: the requests set it again. */
  setPermits(key: string, permits: number | undefined): void {
    const lock = this.#open(key);
    if (permits === lock.permits) return;
    lock.permits = permits;
    lock.changes += 1;
    this.#serve(lock);
  }

  /** Changes nothing, and leaves out expired holds and waiters. */
  inspect(stored: string, key: string): LockState {
    const now = this.context.now();
    const lock = this.all.get(stored) ?? new MemoryLock();
    const held = [...lock.holds].filter(([, { until }]) => until > now);
    // A hold that was adopted was granted before.
    held.sort(([, a], [, b]) => a.since - b.since || a.token - b.token);
    const holders = held.map(([attempt, { owner = attempt, mode, take, holder, since, token, until, leaseMs }]) => {
      const at = { since: new Date(since), remainingMs: Math.min(until - now, leaseMs), fencingToken: token };
      return { owner, attempt, mode, take, ...readHolderText(holder), ...at };
    });
    const counted = held.reduce(
      (last, [, one]) => (one.mode === 'read' && one.token >= last.token ? one : last),
      NO_READER,
    );
    const queue = [...lock.waiters]
      .filter(([, { until }]) => until > now)
      .map(([attempt, { since, request }], i) => {
        const { owner = attempt, mode, take = 1, holder } = request;
        const at = { place: i + 1, since: new Date(since), until: waitsUntil(holder, since) };
        return { owner, attempt, mode, take, ...readHolderText(holder), ...at };
      });
    const permits = permitsOf(holders, lock.permits ?? counted.permits, lock.permits !== undefined);
    return {
      key,
      mode: modeOf(holders),
      holders,
      waiters: queue.length,
      queue,
      permits,
      fencingToken: lock.token,
      readAt: new Date(now),
    };
  }

  /** The last run of each job. */
  runs(key: string): readonly LastRun[] {
    const now = this.context.now();
    const { jobs, holds } = this.all.get(key) ?? new MemoryLock();
    return [...jobs].flatMap(([job, { run }]) => {
      if (!run) return [];
      const { fire, instance, attempt, started, ended, outcome } = run;
      const hold = holds.get(attempt);
      const isRunning = hold !== undefined && hold.token > 0 && hold.until > now;
      const times = { fire: new Date(fire), started: new Date(started), ended: ended ? new Date(ended) : null };
      return { job, instance, attempt, ...times, outcome: outcome ?? (isRunning ? 'running' : 'lost') };
    });
  }

  /** Removes unused locks now and then. */
  forgetUnused(): void {
    const now = this.context.now();
    if (Math.abs(now - this.#forgotAt) < FORGET_EVERY_MS) return;
    this.#forgotAt = now;
    for (const [key, lock] of this.all) {
      if (keptUntil(lock) < now) this.all.delete(key);
    }
  }

  /** The lock, without expired holds and waiters. `me`: the attempt that asks for it. */
  #open(key: string, me?: string, now = this.context.now()): MemoryLock {
    const lock = this.all.get(key) ?? new MemoryLock();
    this.all.set(key, lock);
    Object.assign(lock, { now, keepMs: this.keepMs });
    for (const [attempt, hold] of lock.holds) {
      // The rest exceeds the granted lease: the clock was set back.
      hold.until = Math.min(hold.until, now + hold.leaseMs);
      if (hold.until <= now) remove(lock, lock.holds, attempt);
    }
    for (const [attempt, waiter] of lock.waiters) {
      waiter.until = Math.min(waiter.until, now + waiter.request.waiterLeaseMs);
      if (waiter.until <= now) remove(lock, lock.waiters, attempt);
    }
    for (const [name, { until, run }] of lock.jobs) {
      if (until <= now && !lock.holds.has(run?.attempt ?? '')) lock.jobs.delete(name);
    }
    this.#serve(lock, me);
    return lock;
  }

  /** Grants to the waiters that fit, from the first one on. A waiter that has to ask itself is woken, and the others wait for it. */
  #serve(lock: MemoryLock, me?: string): void {
    for (const [attempt, waiter] of lock.waiters) {
      const { request } = waiter;
      if (attempt === me) return;
      // Its request is refused when it is repeated.
      if (exceeds(lock, request)) this.#wake(lock, attempt, waiter);
      else if (this.context.hears(attempt)) {
        if (!admits(lock, request)) return;
        if (!request.fair || request.keys.length > 1 || request.claim) return this.#wake(lock, attempt, waiter);
        // It may have died meanwhile: the grant lasts no longer than its place.
        const leaseMs = Math.min(request.leaseMs, request.waiterLeaseMs);
        const { token } = this.#grant(lock, request, leaseMs, this.#nextToken(lock));
        const times = { remainingMs: leaseMs, serverTimeMs: lock.now };
        this.context.notify(attempt, { kind: 'granted', fencingToken: token, ...times });
      }
    }
  }

  #wake({ changes }: MemoryLock, attempt: string, waiter: Waiter): void {
    if (waiter.knows === changes) return;
    waiter.knows = changes;
    this.context.notify(attempt, { kind: 'wake' });
  }

  /** Whether no waiter is ahead. A waiter that does not listen, or that takes too many permits, does not hold back others. */
  #isFirst(lock: MemoryLock, me: string): boolean {
    for (const [attempt, { request }] of lock.waiters) {
      if (attempt === me) return true;
      if (this.context.hears(attempt) && !exceeds(lock, request)) return false;
    }
    return true;
  }

  #leave(lock: MemoryLock, attempt: string): void {
    remove(lock, lock.waiters, attempt);
    this.#serve(lock);
  }

  #grantAll(locks: readonly MemoryLock[], request: Request): AcquireReply {
    const { attempt, leaseMs, claim } = request;
    const { now, jobs } = locks[0]!;
    const holds = locks.map((lock) => {
      const held = liveHold(lock, attempt);
      if (held) return stretch(lock, held, leaseMs);
      if (claim) startRun(lock, claim, request);
      return this.#grant(lock, request, leaseMs, entryToken(lock, request) ?? this.#nextToken(lock));
    });
    // The waiters that fit at the same time.
    for (const lock of locks) this.#serve(lock);
    const run = claim && jobs.get(claim.job)?.run;
    return {
      outcome: 'granted',
      fencingTokens: holds.map(({ token }) => token),
      remainingMs: Math.min(...holds.map(({ until }) => until - now)),
      serverTimeMs: now,
      ...(run?.attempt === attempt && { fireMs: run.fire }),
    };
  }

  /** A writer may have given the tokens after the last one to callers of its process. Locks of one moment have different tokens. */
  #nextToken({ token, now }: MemoryLock): number {
    return Math.max((token || this.#greatest) + TOKENS_OF_A_WRITER, this.#greatest + 1, now * 1_000);
  }

  #grant(lock: MemoryLock, request: Request, leaseMs: number, token: number): Hold {
    const { attempt, owner, mode, holder, permits, take = 1 } = request;
    const times = { since: lock.now, until: lock.now + leaseMs, leaseMs };
    const hold = { owner, mode, holder, take, permits, token, entry: token, ...times };
    lock.token = Math.max(lock.token, token);
    this.#greatest = Math.max(this.#greatest, token);
    remove(lock, lock.waiters, attempt);
    lock.holds.set(attempt, hold);
    if (mode === 'read') shareEntry(lock, owner);
    return hold;
  }

  #makeRead(lock: MemoryLock, hold: Hold): void {
    if (hold.mode === 'read') return;
    hold.mode = 'read';
    shareEntry(lock, hold.owner);
    lock.changes += 1;
    this.#serve(lock);
  }

  #refusal(lock: MemoryLock, request: Request): AcquireReply | undefined {
    const { attempt, owner, mode, claim } = request;
    if (liveHold(lock, attempt)) return undefined;
    if (lock.ended.has(attempt)) return { outcome: 'refused', reason: 'released' };
    const mine = modeOf(ofOwner(lock, owner));
    if (this.excludes && mine !== 'write' && exceeds(lock, request))
      return { outcome: 'refused', reason: 'permits', permits: lock.permits };
    if (mode === 'write' && mine === 'read') return { outcome: 'refused', reason: 'upgrade' };
    if (claim && isClaimed(lock, claim))
      return { outcome: 'refused', reason: 'claimed', claimedBy: claimedBy(lock, claim) };
    return undefined;
  }
}

/** The hold of an attempt that is not parked; with a token, only if it has this token. */
function liveHold({ holds }: MemoryLock, attempt: string, token?: number): Hold | undefined {
  const hold = holds.get(attempt);
  return hold && hold.token > 0 && (token ?? hold.token) === hold.token ? hold : undefined;
}

/** The holds of an owner that are not parked; empty without a name. */
const ofOwner = ({ holds }: MemoryLock, owner: string | undefined): Hold[] =>
  owner === undefined ? [] : [...holds.values()].filter((hold) => hold.token > 0 && hold.owner === owner);

/** Whether another hold fits; parked ones count. */
function admits({ holds, permits }: MemoryLock, request: Request): boolean {
  if (request.mode === 'write') return holds.size === 0;
  const taken = [...holds.values()].reduce((sum, { take }) => sum + take, request.take ?? 1);
  // The number that an operator has set applies to all requests.
  return modeOf([...holds.values()]) !== 'write' && taken <= (permits ?? (request.permits || Infinity));
}

/** Whether a request takes more permits than an operator has set. */
const exceeds = ({ permits = Infinity }: MemoryLock, { mode, take = 1 }: Request): boolean =>
  mode === 'read' && take > permits;

/** The token with which a named owner re-enters the lock that it holds, past the queue. */
function entryToken(lock: MemoryLock, request: Request): number | undefined {
  const mine = ofOwner(lock, request.owner);
  const writing = mine.find(({ mode }) => mode === 'write');
  return writing?.entry ?? (admits(lock, request) ? mine[0]?.entry : undefined);
}

/** The readers of one owner re-enter with the greatest token of any of them. */
function shareEntry(lock: MemoryLock, owner: string | undefined): void {
  const readers = ofOwner(lock, owner).filter(({ mode }) => mode === 'read');
  const greatest = Math.max(...readers.map(({ entry }) => entry));
  for (const reader of readers) reader.entry = greatest;
}

/** A lease never gets shorter. */
function stretch({ now }: MemoryLock, hold: Hold, leaseMs: number): Hold {
  hold.until = Math.max(hold.until, now + leaseMs);
  hold.leaseMs = Math.max(leaseMs, hold.until - now);
  return hold;
}

function join({ waiters, changes, now }: MemoryLock, request: Request): void {
  const { attempt, waiterLeaseMs } = request;
  if (waiterLeaseMs === 0) return;
  const known = waiters.get(attempt);
  // It is asking now, and keeps its place.
  const asked = { until: now + waiterLeaseMs, knows: changes };
  if (known) Object.assign(known, asked, { request: { ...request, holder: known.request.holder } });
  else waiters.set(attempt, { request, since: now, ...asked });
}

const firstWaiter = ({ waiters }: MemoryLock): string | undefined => waiters.keys().next().value;

/** Whether this attempt has no place, and the queue has reached its `maxWaiters`. */
const isFullFor = ({ waiters }: MemoryLock, { attempt, waiterLeaseMs, maxWaiters = 0 }: Request): boolean =>
  waiterLeaseMs > 0 && maxWaiters > 0 && !waiters.has(attempt) && waiters.size >= maxWaiters;

function remove(lock: MemoryLock, from: Map<string, unknown>, attempt: string): void {
  if (from.delete(attempt)) lock.changes += 1;
}

function remember({ ended }: MemoryLock, attempt: string, how: 'again' | 'revoked' | 'lost'): void {
  if (!ended.has(attempt)) ended.set(attempt, how);
  if (ended.size > ENDED_REMEMBERED) ended.delete(ended.keys().next().value!);
}

function outcomeOfRelease(lock: MemoryLock, attempt: string, wasHeld: boolean): ReleaseReply['outcome'] {
  if (liveHold(lock, attempt)) return 'released';
  if (lock.waiters.has(attempt)) return 'cancelled';
  return lock.ended.get(attempt) ?? (wasHeld ? 'expired' : 'unknown');
}

function busyReply({ holds, waiters, token, permits, now }: MemoryLock, attempt: string) {
  const writer = [...holds].findLast(([, hold]) => hold.mode === 'write' && hold.token > 0);
  const ends = [...holds.values()].map(({ until }) => until - now);
  return {
    outcome: 'busy',
    retryMs: ends.length > 0 ? Math.min(...ends) : 0,
    ahead: Math.max([...waiters.keys()].indexOf(attempt), 0),
    holder: writer?.[1].holder,
    owner: writer && (writer[1].owner ?? writer[0]),
    lastToken: token,
    permits,
    serverTimeMs: now,
  } as const;
}

const lostReply = ({ token, ended }: MemoryLock, attempt: string): LostReply => ({
  outcome: 'lost',
  lastToken: token,
  revoked: ended.get(attempt) === 'revoked',
});

function keptUntil({ holds, waiters, jobs, permits, now, keepMs }: MemoryLock): number {
  const leases = [...holds.values(), ...waiters.values()].map(({ until }) => until);
  const jobsUntil = [...jobs.values()].map(({ until }) => until);
  const permitsUntil = permits === undefined ? 0 : now + PERMITS_KEPT_MS;
  return Math.max(Math.max(now, ...leases) + keepMs, permitsUntil, ...jobsUntil);
}

function fireOf({ kind, ms, ageMs }: Claim, now: number): number {
  if (kind === 'at') return ms;
  return kind === 'slot' ? Math.floor((now - ageMs) / ms) * ms : now;
}

/** With `rerunOnLoss`, a run that ended without an outcome may be repeated. */
function isClaimed({ jobs, now }: MemoryLock, claim: Claim): boolean {
  const { run, fires = [] } = jobs.get(claim.job) ?? {};
  const fire = fireOf(claim, now);
  const repeats = claim.rerunOnLoss && run !== undefined && run.outcome === undefined;
  if (claim.kind === 'gap') return run !== undefined && Math.abs(now - run.fire) < claim.ms && !repeats;
  // A fire that is older than all remembered ones may also have been granted. A void claim leaves one fire less.
  const isKnown = fires.includes(fire) || (fires.length >= FIRES_REMEMBERED - 1 && fire < fires[0]!);
  return isKnown && !(repeats && run.fire === fire);
}

/** The attempt that runs the claimed fire and has not reported an outcome. */
function claimedBy({ jobs, now }: MemoryLock, claim: Claim): string | undefined {
  const run = jobs.get(claim.job)?.run;
  if (!run || run.outcome !== undefined) return undefined;
  return claim.kind === 'gap' || run.fire === fireOf(claim, now) ? run.attempt : undefined;
}

/** Remembers the fire of a request that is granted. */
function startRun({ jobs, now, keepMs }: MemoryLock, claim: Claim, { attempt, holder }: Request): void {
  const fire = fireOf(claim, now);
  const job = jobs.get(claim.job) ?? { fires: [], run: undefined, until: 0 };
  job.fires = [...new Set([...job.fires, fire])].toSorted((a, b) => a - b).slice(-FIRES_REMEMBERED);
  job.run = { fire, attempt, instance: /^\S*/.exec(holder)![0], started: now };
  job.until = Math.max(job.until, now + Math.max(claim.rememberMs, keepMs));
  jobs.set(claim.job, job);
}

/** `void`: the run never began, and its fire may be claimed again. */
function endRun(
  { jobs, now, keepMs }: MemoryLock,
  name: string | undefined,
  { attempt, runOutcome }: Pick<ReleaseRequest, 'attempt' | 'runOutcome'>,
): void {
  const job = jobs.get(name ?? '');
  const run = job?.run;
  if (run?.attempt !== attempt || run.outcome !== undefined) return;
  if (runOutcome === 'void') {
    job!.fires = job!.fires.filter((fire) => fire !== run.fire);
    job!.run = undefined;
  } else {
    Object.assign(run, { outcome: runOutcome, ended: now });
    job!.until = Math.max(job!.until, now + keepMs);
  }
}
