import { type Command, type Request, type Release, clientOf, keysOf } from './commands.js';

interface Hold {
  attempt: string;
  owner: string;
  mode: string;
  readonly take: number;
  deadline: number;
  /** How long it was granted: no more is left, wherever the clock goes. */
  span: number;
  /** 0: parked. */
  token: number;
  since: number;
  text: string;
}

interface Waiter extends Request {
  place: number;
  /** 2: it is asked to send its request in its turn. */
  readonly turn: number;
  readonly since: number;
  deadline: number;
}

interface Job {
  fires: number[];
  until: number;
  run?:
    { fire: number; attempt: string; started: number; ended: number; outcome: string; instance: string } | undefined;
}

/** What Redis remembers of one lock. */
const newLock = () => ({
  token: 0,
  holds: new Map<string, Hold>(),
  queue: [] as Waiter[],
  /** Places: the first, that which is served next, the last, and where the search for dead waiters continues. */
  first: 1,
  head: 1,
  tail: 0,
  cursor: 0,
  swept: 0,
  /** The last characters of the attempts that ended last, and of those that were revoked. */
  ended: [] as string[],
  revoked: [] as string[],
  /** Those of which a command may still come. */
  late: [] as { readonly id: string; readonly at: number }[],
  floor: 0,
  permits: undefined as number | undefined,
  jobs: new Map<string, Job>(),
  /** The greatest token that each owner got since it came. */
  owned: new Map<string, number>(),
});
export type Lock = ReturnType<typeof newLock>;

/** What a script replies, as its reader has it. Of a busy lock, any writer may be named, and `retryMs` may be less. */
export interface Expected {
  readonly reply: Readonly<Record<string, unknown>>;
  readonly retryMs?: { readonly most: number };
  readonly holders?: readonly Hold[];
}

interface Rules {
  readonly keepMs: number;
  readonly rememberMs: number;
  /** Whether the server has all listeners. */
  readonly counts: boolean;
  readonly hears: (client: string) => boolean;
}

const idOf = (attempt: string): string => attempt.slice(-8);
const hasId = (ids: readonly string[], id: string): boolean => ids.some((one) => one.startsWith(id));
const ring = (ids: readonly string[], id: string, most: number, mark = ''): string[] =>
  hasId(ids, id) ? [...ids] : [...ids, id + mark].slice(-most);
/** How many attempts are remembered that ended, and that were revoked. */
const [ENDED, REVOKED] = [7, 32];

/** The rules of the locks on one server: what each command does, in its order, and which messages it sends. */
export class ReferenceModel {
  locks = new Map<string, Lock>();
  readonly messages: string[] = [];
  /** Whether the last command has changed what was there: a server without memory allows any write behind that. */
  hasWritten = false;

  constructor(readonly rules: Rules) {}

  /** Has what the command may change put back when it failed. */
  keep(): () => void {
    const kept = structuredClone(this.locks);
    return () => (this.locks = kept);
  }

  lock(key: string): Lock {
    return this.locks.get(key) ?? newLock();
  }

  run(command: Command, micros: number): Expected {
    this.messages.splice(0);
    this.hasWritten = false;
    const { attempt } = command.name === 'acquire' ? command.request : command;
    const turns = keysOf(command).map((key) => {
      const lock = this.lock(key);
      this.locks.set(key, lock);
      return new Turn(this, lock, micros, attempt);
    });
    for (const turn of turns) turn.begin();
    const [one] = turns as [Turn];
    const expected =
      command.name === 'acquire' ? acquire(turns, command) : { reply: one[command.name](command as never) };
    for (const turn of turns) turn.end();
    return expected;
  }
}

/** One command at one lock. */
class Turn {
  readonly now: number;
  readonly id: string;
  /** Whether the queue has to be served. */
  freed = false;
  hasMore = false;
  mine: Hold | undefined;
  waiter: Waiter | undefined;
  hasExpired = false;
  stands: 'held' | 'entering' | undefined;
  /** The token of its owner. */
  owned: number | undefined;
  /** The place whose waiter was notified to ask, or has asked. */
  readonly #told: number;

  constructor(
    private readonly model: ReferenceModel,
    readonly lock: Lock,
    readonly micros: number,
    private readonly attempt: string,
  ) {
    this.now = Math.floor(micros / 1000);
    this.id = idOf(attempt);
    this.#told = lock.head;
  }

  begin(): void {
    const { lock, now } = this;
    const last = lock.late.at(-1);
    if (last && this.micros - last.at >= 20_000_000) {
      Object.assign(lock, { late: [], floor: 0 });
      this.model.hasWritten = true;
    }
    for (const hold of lock.holds.values()) {
      this.#shorten(hold, hold.span);
      if (hold.deadline > now) continue;
      this.#drop(hold);
      if (hold.attempt === this.attempt) this.hasExpired = true;
    }
    this.mine = lock.holds.get(this.attempt);
    const place = lock.queue.find(({ attempt }) => attempt === this.attempt)?.place;
    if (place !== undefined) {
      this.waiter = this.#at(place);
      this.freed ||= !this.waiter;
    }
    // Waiters that died behind a live one are found after some time.
    if (lock.queue.length === 0 || Math.abs(now - lock.swept) < 1_000) return;
    if (lock.cursor < lock.first || lock.cursor > lock.tail) lock.cursor = lock.first;
    const stop = Math.min(lock.tail, lock.cursor + 63);
    for (let i = lock.cursor; i <= stop; i++) if (!this.#at(i) && i === lock.first) lock.first = i + 1;
    Object.assign(lock, { cursor: stop + 1, swept: now, head: Math.max(lock.head, lock.first) });
  }

  end(): void {
    if (this.freed) this.serve();
    if (this.lock.queue.length === 0) Object.assign(this.lock, { first: 1, head: 1, tail: 0, cursor: 0 });
    const owners = new Set(this.holds().map(({ owner, token }) => token > 0 && owner));
    for (const owner of this.lock.owned.keys()) if (!owners.has(owner)) this.lock.owned.delete(owner);
  }

  readonly holds = (): Hold[] => [...this.lock.holds.values()];
  readonly #isLate = (id: string): boolean => this.lock.late.some((one) => one.id === id);
  readonly isEnded = (id = this.id): boolean => hasId(this.lock.ended, id) || this.#isLate(id);

  isTooLate(sentMicros: number, untilMicros: number): boolean {
    // After the clock was set back behind the floor, that would refuse everyone.
    const floor = this.lock.floor > this.micros ? 0 : this.lock.floor;
    return sentMicros > this.micros || sentMicros <= floor || this.micros > untilMicros;
  }

  /** After a step back of the clock, no more is left than there was. */
  #shorten(one: { deadline: number }, span: number): void {
    if (one.deadline <= this.now + span) return;
    one.deadline = this.now + span;
    this.model.hasWritten = true;
  }

  #drop(hold: Hold): void {
    const { owned, holds } = this.lock;
    if (hold.owner !== '-') owned.set(hold.owner, Math.max(owned.get(hold.owner) ?? 0, hold.token));
    holds.delete(hold.attempt);
    this.freed = this.model.hasWritten = true;
  }

  #at(place: number): Waiter | undefined {
    const waiter = this.lock.queue.find((one) => one.place === place);
    if (!waiter) return undefined;
    this.#shorten(waiter, waiter.waiterLeaseMs);
    if (waiter.deadline > this.now) return waiter;
    this.#leave(waiter);
    return undefined;
  }

  #leave(waiter: Waiter): void {
    this.lock.queue.splice(this.lock.queue.indexOf(waiter), 1);
    this.model.hasWritten = true;
  }

  leave(): void {
    if (!this.waiter) return;
    this.#leave(this.waiter);
    this.waiter = undefined;
    this.freed = true;
  }

  #tell(attempt: string, kind: string, ...rest: number[]): boolean {
    const client = clientOf(attempt);
    const { hears, counts } = this.model.rules;
    const isHeard = hears(client);
    if (isHeard) this.model.messages.push([client, kind, attempt, ...rest].join(' '));
    return isHeard || !counts;
  }

  /** Whether another holder may join the present ones. */
  admits({ mode, permits, take }: Pick<Request, 'mode' | 'permits' | 'take'>): boolean {
    if (this.lock.holds.size === 0) return true;
    if (mode !== 'read' || this.holds().some((hold) => hold.mode === 'w')) return false;
    const limit = this.lock.permits ?? (permits || Infinity);
    return this.holds().reduce((sum, hold) => sum + hold.take, take) <= limit;
  }

  /** No waiter needs to be looked at. */
  #isWritten(): boolean {
    return this.lock.permits === undefined && this.holds().some(({ mode }) => mode === 'w');
  }

  /** A process may give the 63 tokens behind that of a writer to its own callers. */
  nextToken(): number {
    return Math.max(this.lock.token + (this.lock.holds.size > 0 ? 1 : 64), this.micros);
  }

  grant(asked: Request, leaseMs: number, token: number): Hold {
    const { attempt, owner, take, mode, holder: text } = asked;
    const lease = { since: this.now, deadline: this.now + leaseMs, span: leaseMs };
    const hold = { attempt, owner, mode: mode[0]!, take, token, text, ...lease };
    this.lock.holds.set(attempt, hold);
    this.lock.token = Math.max(this.lock.token, token);
    return hold;
  }

  /** Serves the queue in its order, as far as the lock admits. True: it is the turn of `me`. */
  serve(me?: string): boolean {
    const { lock, freed: hasNews } = this;
    const { rules } = this.model;
    this.freed = false;
    let grants = 0;
    const last = lock.head + 999;
    for (; lock.head <= lock.tail && lock.head <= last && !(grants > 0 && this.#isWritten()); lock.head++) {
      const waiter = this.#at(lock.head);
      if (!waiter) {
        if (lock.head === lock.first) lock.first++;
        continue;
      }
      const exceeds = waiter.mode === 'read' && lock.permits !== undefined && waiter.take > lock.permits;
      if (!exceeds && !this.admits(waiter)) return false;
      if (waiter.attempt === me) return true;
      if (exceeds) {
        // It is refused when it asks.
        this.#tell(waiter.attempt, 'wake');
      } else if (waiter.turn === 1 && grants < 64 && (!rules.counts || rules.hears(clientOf(waiter.attempt)))) {
        if (lock.head === lock.first) lock.first++;
        grants++;
        const token = this.nextToken();
        const leaseMs = Math.min(waiter.leaseMs, waiter.waiterLeaseMs);
        this.#leave(waiter);
        this.grant(waiter, leaseMs, token);
        this.#tell(waiter.attempt, 'granted', token, Math.floor(token / 1_000) - this.now, leaseMs);
      } else {
        if (waiter.turn !== 1 && lock.head === this.#told && !hasNews) return false;
        if (waiter.turn === 0 ? this.#wakeSome() : this.#tell(waiter.attempt, 'wake')) return false;
      }
    }
    this.hasMore = lock.head > last && lock.head <= lock.tail;
    return false;
  }

  /** Unfair waiters race: two of different processes are notified. Those without a listener are passed over, and keep their place. */
  #wakeSome(): boolean {
    const { lock } = this;
    const woken = new Set<string>();
    let next: number | undefined;
    let place = lock.head;
    for (; place <= Math.min(lock.tail, lock.head + 15) && woken.size < 2; place++) {
      const one = this.#at(place);
      if (!one) continue;
      const client = clientOf(one.attempt);
      const mayAsk = one.turn === 0 && !woken.has(client) && this.admits(one);
      if (mayAsk && this.#tell(one.attempt, 'wake')) woken.add(client);
      if (!mayAsk || woken.has(client)) next ??= place;
    }
    lock.head = woken.size > 0 ? next! : (next ?? place) - 1;
    return woken.size > 0;
  }

  /** Whether the live waiters reach the limit of this caller. */
  isFullFor({ maxWaiters }: Request): boolean {
    const { lock } = this;
    if (maxWaiters === 0 || this.waiter || lock.queue.length < maxWaiters) return false;
    let live = 0;
    for (let place = lock.tail; place >= lock.first && live < maxWaiters; place--) if (this.#at(place)) live++;
    return live === maxWaiters;
  }

  join(asked: Request): void {
    const { lock, now } = this;
    const turn = asked.fair === 1 && (asked.keys.length > 1 || asked.job !== '-') ? 2 : asked.fair;
    const { place = (lock.tail += 1), since = now } = this.waiter ?? {};
    const waiter = { ...asked, turn, place, since, deadline: now + asked.waiterLeaseMs };
    if (this.waiter) lock.queue.splice(lock.queue.indexOf(this.waiter), 1, waiter);
    else lock.queue.push(waiter);
    this.waiter = waiter;
  }

  stand(asked: Request, isLate: boolean, isClaimed: boolean): string | undefined {
    const { mine, lock } = this;
    if (mine && mine.token > 0) {
      this.stands = 'held';
      return undefined;
    }
    if (mine || this.isEnded()) return 'released';
    if (isLate) return 'late';
    const own = this.holds().filter((hold) => hold.token > 0 && asked.owner !== '-' && hold.owner === asked.owner);
    const writes = own.some(({ mode }) => mode === 'w');
    if (!writes && asked.mode === 'read' && lock.permits !== undefined && asked.take > lock.permits) return 'permits';
    if (!writes && own.length > 0 && asked.mode === 'write') return 'upgrade';
    if (isClaimed) return 'claimed';
    if (writes || (own.length > 0 && this.admits(asked))) {
      this.stands = 'entering';
      this.owned = Math.max(lock.owned.get(asked.owner) ?? 0, ...own.map(({ token }) => token));
    }
    return undefined;
  }

  hasTurn(asked: Request): boolean {
    const { lock, waiter } = this;
    if (asked.fair !== 1) return this.admits(asked);
    // It was passed over, and is first again.
    if (waiter && waiter.place < lock.head) lock.head = waiter.place;
    return (!this.#isWritten() && this.serve(asked.attempt)) || (lock.head > lock.tail && this.admits(asked));
  }

  extend(hold: Hold, leaseMs: number): void {
    hold.deadline = Math.max(hold.deadline, this.now + leaseMs);
    hold.span = Math.max(leaseMs, hold.deadline - this.now);
  }

  /** Whether the fire of this claim was granted, and to whom while that run has no outcome. */
  claim({ job, fireKind, fireMs, fireAgeMs, rerun }: Request) {
    const { fires, run }: Partial<Job> = this.lock.jobs.get(job) ?? { fires: [] };
    const { now } = this;
    const slot = Math.floor((now - fireAgeMs) / fireMs) * fireMs;
    const fire = fireKind === 'at' ? fireMs : fireKind === 'slot' ? slot : now;
    const isGap = fireKind === 'gap';
    const isOld = fires.length >= 15 && fire < Math.min(...fires);
    const isGranted = isGap ? !!run && Math.abs(now - run.fire) < fireMs : fires.includes(fire) || isOld;
    const isOpen = run?.outcome === '-' && (isGap || run.fire === fire);
    return { fire, isClaimed: isGranted && !(rerun === 1 && isOpen), by: isOpen ? run.attempt : undefined };
  }

  recordRun({ job, attempt, holder }: Request, fire: number): void {
    const { keepMs, rememberMs } = this.model.rules;
    const one = this.#keepJob(job, Math.max(rememberMs, keepMs));
    if (!one.fires.includes(fire)) one.fires = [...one.fires, fire].sort((a, b) => a - b).slice(-16);
    one.run = { fire, attempt, started: this.now, ended: 0, outcome: '-', instance: holder.split(' ')[0]! };
  }

  #keepJob(job: string, ms: number): Job {
    const { jobs, holds, queue } = this.lock;
    const isThere = (who: string): boolean => holds.has(who) || queue.some(({ attempt }) => attempt === who);
    for (const [name, { until, run }] of jobs) {
      if (name === job || until > this.now || (run && isThere(run.attempt))) continue;
      jobs.delete(name);
      this.model.hasWritten = true;
    }
    const one = jobs.get(job) ?? { fires: [], until: 0 };
    one.until = Math.max(one.until, this.now + ms);
    jobs.set(job, one);
    return one;
  }

  #endRun({ job, attempt, runOutcome }: Release): void {
    const one = this.lock.jobs.get(job);
    const { run } = one ?? {};
    if (run?.attempt !== attempt || runOutcome === '-' || (runOutcome === 'void' && run.outcome !== '-')) return;
    if (runOutcome === 'void') {
      // It never began.
      one!.fires = one!.fires.filter((fire) => fire !== run.fire);
      one!.run = undefined;
      return;
    }
    Object.assign(run, { ended: this.now, outcome: runOutcome });
    this.#keepJob(job, this.model.rules.keepMs);
  }

  #remember(id: string, mayCome: boolean, mark = ''): void {
    const { lock } = this;
    lock.ended = ring(lock.ended, id, ENDED, mark);
    if (!mayCome || this.#isLate(id)) return;
    lock.late.push({ id, at: this.micros });
    if (lock.late.length > 16) lock.floor = lock.late.shift()!.at;
  }

  release(command: Release) {
    const { lock, mine, waiter, id, now } = this;
    const wasFirst = waiter && waiter.place <= lock.head;
    const wasEnded = this.isEnded();
    let outcome = 'unknown';
    if (mine && mine.token > 0) {
      outcome = 'released';
      this.#drop(mine);
      const deadline = Math.min(mine.since, now) + command.holdAtLeastMs;
      if (deadline > now) lock.holds.set(this.attempt, { ...mine, deadline, span: deadline - now, token: 0, text: '' });
    } else if (waiter) {
      outcome = 'cancelled';
      this.#leave(waiter);
    } else if (lock.revoked.includes(id)) outcome = 'revoked';
    else if (lock.ended.includes(`${id}:`)) outcome = 'lost';
    else if (mine || wasEnded) outcome = 'again';
    else if (this.hasExpired) outcome = 'expired';
    if (command.job !== '-' && (outcome === 'released' || command.runOutcome === 'void')) this.#endRun(command);
    this.#remember(id, command.unanswered === 1, outcome === 'unknown' && !command.repeated ? ':' : '');
    if (lock.queue.length > 0) this.serve();
    // No message notifies the new first one when a holder has died.
    const first = outcome === 'cancelled' && wasFirst ? this.#at(lock.head) : undefined;
    if (first) this.#tell(first.attempt, 'wake');
    return { outcome, holds: lock.holds.size, lastToken: lock.token };
  }

  #lost(...ids: string[]) {
    // With the tokens of those who follow.
    if (this.freed) this.serve();
    const { token, revoked } = this.lock;
    return { outcome: 'lost', lastToken: token, revoked: ids.some((id) => revoked.includes(id)) };
  }

  #proves(hold: Hold | undefined, token: number): hold is Hold {
    return hold !== undefined && hold.token > 0 && hold.token === token;
  }

  renew({ token, leaseMs, mode }: { token: number; leaseMs: number; mode: string }) {
    const { mine, lock } = this;
    if (!this.#proves(mine, token)) return this.#lost(this.id);
    if (mode === 'read' && mine.mode === 'w') {
      mine.mode = 'r';
      // Its process may have given the tokens behind its own away.
      lock.token = Math.max(lock.token, mine.token + 63);
      this.freed = true;
    }
    this.extend(mine, leaseMs);
    return { outcome: 'renewed', remainingMs: mine.deadline - this.now };
  }

  downgrade({ token }: { token: number }) {
    const { outcome, ...rest } = this.renew({ token, leaseMs: 0, mode: 'read' });
    return outcome === 'renewed' ? { outcome: 'downgraded' } : { outcome, ...rest };
  }

  adopt({ from, token, leaseMs, holder, unanswered }: Extract<Command, { name: 'adopt' }>) {
    const { lock, attempt } = this;
    const given = !this.mine && !this.isEnded() ? lock.holds.get(from) : undefined;
    if (this.#proves(given, token)) {
      lock.holds.delete(from);
      lock.holds.set(attempt, Object.assign(given, { attempt, text: holder }));
      this.#remember(idOf(from), unanswered === 1);
    }
    const hold = lock.holds.get(attempt);
    if (!this.#proves(hold, token)) return this.#lost(this.id, idOf(from));
    this.extend(hold, leaseMs);
    return { outcome: 'adopted', remainingMs: hold.deadline - this.now };
  }

  writeBack({ token, newToken }: { token: number; newToken: number }) {
    const { mine, lock } = this;
    if (!this.#proves(mine, token) && !this.#proves(mine, newToken)) return this.#lost(this.id);
    mine.token = newToken;
    lock.token = Math.max(lock.token, newToken);
    return { outcome: 'written' };
  }

  forceRelease({ seenToken }: { seenToken: number }) {
    const { lock } = this;
    if (lock.revoked.includes(this.id)) return { outcome: 'again' };
    const isSeen = ({ token, since }: Hold) => (token === 0 ? Math.min(since * 1_000, lock.token) : token) <= seenToken;
    const ended = this.holds().filter(isSeen);
    for (const hold of ended) this.#drop(hold);
    const live = ended.flatMap(({ token, attempt }) => (token > 0 ? [attempt] : []));
    for (const attempt of live.sort()) {
      this.#tell(attempt, 'revoked');
      this.#remember(idOf(attempt), true, ':');
      lock.revoked = ring(lock.revoked, idOf(attempt), REVOKED);
    }
    if (ended.length > 0) lock.revoked = ring(lock.revoked, this.id, REVOKED);
    return { outcome: 'revoked', holds: ended.length };
  }

  setPermits({ permits }: { permits: number | '-' }) {
    const { lock } = this;
    const wanted = permits === '-' ? undefined : permits;
    if (lock.revoked.includes(this.id)) return { outcome: 'set' };
    lock.revoked = ring(lock.revoked, this.id, REVOKED);
    if (wanted !== lock.permits) {
      lock.permits = wanted;
      lock.head = lock.first;
      this.freed = true;
    }
    return { outcome: 'set' };
  }
}

/** Acquires all locks or none. Of several, it waits for those up to the first that is busy. */
function acquire(
  turns: readonly Turn[],
  { request, sentMicros, untilMicros }: Extract<Command, { name: 'acquire' }>,
): Expected {
  const [one] = turns as [Turn];
  const { attempt, waiterLeaseMs, leaseMs, fair, job } = request;
  const isKnown = turns.some(({ mine, waiter }) => mine || waiter);
  const claim = job === '-' ? undefined : one.claim(request);
  const reasons = turns.map((turn) => {
    return turn.stand(request, !isKnown && turn.isTooLate(sentMicros, untilMicros), claim?.isClaimed === true);
  });
  const reason = reasons.find((each) => each !== undefined);
  if (reason) {
    for (const turn of turns) turn.leave();
    if (reason === 'late') return { reply: { outcome: 'late', micros: one.micros } };
    if (reason === 'permits') {
      return { reply: { outcome: 'refused', reason, permits: turns[reasons.indexOf(reason)]!.lock.permits } };
    }
    return { reply: { outcome: 'refused', reason, claimedBy: reason === 'claimed' ? claim!.by : undefined } };
  }
  const isTurn = turns.map((turn) => turn.stands !== undefined || turn.hasTurn(request));
  const busy = turns[isTurn.indexOf(false)];
  if (busy) {
    const isFull = waiterLeaseMs > 0 && busy.isFullFor(request);
    for (const [i, turn] of turns.entries()) {
      if (isFull || i > turns.indexOf(busy)) {
        turn.leave();
        continue;
      }
      if (fair !== 1 || turn.freed) turn.serve(attempt);
      if (waiterLeaseMs > 0 && (turn.waiter || !turn.stands)) turn.join(request);
    }
    for (const turn of turns) turn.end();
    const { lock, waiter, now } = busy;
    const writers = busy.holds().filter(({ mode, token }) => mode === 'w' && token > 0);
    const firstEnd = lock.holds.size > 0 ? Math.min(...busy.holds().map(({ deadline }) => deadline)) - now : 0;
    const most = busy.hasMore ? 1 : firstEnd;
    const ahead = waiter ? Math.max(Math.min(waiter.place - lock.head, lock.queue.length - 1), 0) : 0;
    const reply = { outcome: 'busy', ahead, serverTimeMs: now, lastToken: lock.token, isFull, permits: lock.permits };
    return { reply, retryMs: { most }, holders: structuredClone(writers) };
  }
  const granted = turns.map((turn) => {
    const { mine, owned, stands } = turn;
    if (stands === 'held') {
      turn.extend(mine!, leaseMs);
      return { turn, hold: mine! };
    }
    turn.leave();
    const hold = turn.grant(request, leaseMs, owned ?? turn.nextToken());
    if (claim) turn.recordRun(request, claim.fire);
    if (turn.lock.queue.length > 0) turn.serve();
    return { turn, hold };
  });
  const run = one.lock.jobs.get(job)?.run;
  const reply = {
    outcome: 'granted',
    fencingTokens: granted.map(({ hold }) => hold.token),
    remainingMs: Math.min(...granted.map(({ hold }) => hold.deadline)) - one.now,
    serverTimeMs: one.now,
    ...(run?.attempt === attempt ? { fireMs: run.fire } : {}),
  };
  return { reply };
}
