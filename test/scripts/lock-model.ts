/** What an acquire command says, as far as the lock's behaviour depends on it. */
export interface Ask {
  readonly attempt: string;
  readonly owner: string;
  readonly mode: string;
  readonly leaseMs: number;
  readonly waiterLeaseMs: number;
  readonly fair: number;
  readonly limit: number;
  readonly holder: string;
}

/** A parked hold has token 0. */
export interface Hold {
  readonly owner: string;
  readonly mode: string;
  readonly token: number;
  readonly since: number;
  deadline: number;
  lease: number;
}

export interface Waiter extends Ask {
  deadline: number;
}

export const clientOf = (attempt: string): string => attempt.split('.')[0]!;

/** One lock in memory: what the scripts promise, written from their headers and not from their data. */
export class LockModel {
  readonly holds = new Map<string, Hold>();
  queue: Waiter[] = [];
  token = 0;
  /** What was published since it was taken last, one `client message` each. */
  pushes: string[] = [];
  readonly #released: string[] = [];
  /** The token with which the readers of a named owner re-enter, while it has any. */
  readonly #tenures = new Map<string, number>();
  #latestWriter: Ask | undefined;
  #micros = 0;
  #freed = false;

  constructor(readonly hears: (client: string) => boolean) {}

  get #now(): number {
    return Math.floor(this.#micros / 1000);
  }

  acquire(micros: number, ask: Ask): string[] {
    this.#begin(micros);
    const hold = this.holds.get(ask.attempt);
    if (hold?.token) return this.#extended(ask, hold);
    if (hold || this.#wasReleased(ask.attempt)) return this.#refused(ask, 'released');
    const entered = this.#reenter(ask);
    if (entered) return entered;
    const waiter = this.queue.find(({ attempt }) => attempt === ask.attempt);
    if (waiter) this.#look(waiter);
    const served = ask.fair && !ask.waiterLeaseMs ? this.#handOver(ask.attempt) : undefined;
    if (served) return this.#granted(ask, served, ask.leaseMs);
    if (this.#admits(ask) && (!ask.fair || this.queue.length === 0)) return this.#grantNow(ask, this.#nextToken());
    if (ask.waiterLeaseMs) this.#enqueue(ask);
    const handed = ask.waiterLeaseMs || !ask.fair ? this.#handOver(ask.attempt) : undefined;
    return handed ? this.#granted(ask, handed, ask.leaseMs) : this.#busy(ask);
  }

  release(micros: number, { attempt, minHoldMs }: { attempt: string; minHoldMs: number }): string[] {
    const before = this.holds.get(attempt);
    this.#begin(micros);
    const hold = this.holds.get(attempt);
    let outcome = before ? 'expired' : 'unknown';
    if (hold?.token) {
      outcome = 'released';
      this.#drop(attempt, hold);
      const deadline = Math.min(hold.since, this.#now) + minHoldMs;
      if (deadline > this.#now) this.holds.set(attempt, { ...hold, deadline, lease: deadline - this.#now, token: 0 });
    } else if (this.#leave(attempt)) outcome = 'cancelled';
    else if (hold || this.#wasReleased(attempt)) outcome = 'again';
    if (!this.#wasReleased(attempt)) this.#released.push(attempt.slice(-8));
    while (`;${this.#released.join(';')};`.length > 64) this.#released.shift();
    this.#handOver();
    return [outcome, attempt, `${this.#now}`, `${this.holds.size}`, `${this.token}`];
  }

  renew(micros: number, renewal: { attempt: string; token: string; leaseMs: number }): string[] {
    this.#begin(micros);
    const hold = this.holds.get(renewal.attempt);
    const alive = hold && hold.token > 0 && `${hold.token}` === renewal.token;
    if (alive) this.#stretch(hold, renewal.leaseMs);
    if (this.#freed) this.#handOver();
    const head = [alive ? 'renewed' : 'lost', renewal.attempt, `${this.#now}`];
    return [...head, `${alive ? hold.deadline - this.#now : this.token}`];
  }

  #begin(micros: number): void {
    this.#micros = micros;
    this.#freed = false;
    for (const [attempt, hold] of this.holds) {
      hold.deadline = Math.min(hold.deadline, this.#now + hold.lease);
      if (hold.deadline > this.#now) continue;
      this.#drop(attempt, hold);
      this.#freed = true;
    }
  }

  #drop(attempt: string, hold: Hold): void {
    this.holds.delete(attempt);
    const kin = [...this.holds.values()].filter(
      ({ owner, mode, token }) => owner === hold.owner && mode === 'read' && token,
    );
    if (kin.length === 0) this.#tenures.delete(hold.owner);
  }

  #stretch(hold: Hold, leaseMs: number): void {
    hold.deadline = Math.max(hold.deadline, this.#now + leaseMs);
    hold.lease = Math.max(leaseMs, hold.deadline - this.#now);
  }

  #reenter(ask: Ask): string[] | undefined {
    if (ask.owner === '-') return undefined;
    const writing = [...this.holds.values()].find(
      (hold) => hold.owner === ask.owner && hold.mode === 'write' && hold.token,
    );
    if (writing) return this.#grantNow(ask, writing.token);
    const tenure = this.#tenures.get(ask.owner);
    if (tenure && ask.mode === 'write') return this.#refused(ask, 'upgrade');
    return tenure && this.#admits(ask) ? this.#grantNow(ask, tenure) : undefined;
  }

  #grant(ask: Ask, token: number, lease: number): void {
    const { owner, mode } = ask;
    this.holds.set(ask.attempt, { owner, mode, token, lease, since: this.#now, deadline: this.#now + lease });
    this.token = Math.max(this.token, token);
    if (mode === 'write') this.#latestWriter = ask;
    else if (owner !== '-') this.#tenures.set(owner, Math.max(token, this.#tenures.get(owner) ?? 0));
  }

  #grantNow(ask: Ask, token: number): string[] {
    this.#leave(ask.attempt);
    this.#grant(ask, token, ask.leaseMs);
    return this.#granted(ask, token, ask.leaseMs);
  }

  #extended(ask: Ask, hold: Hold): string[] {
    this.#stretch(hold, ask.leaseMs);
    return this.#granted(ask, hold.token, hold.deadline - this.#now);
  }

  #granted({ attempt }: Ask, token: number, remaining: number): string[] {
    if (this.#freed) this.#handOver();
    return ['granted', attempt, `${this.#now}`, `${token}`, `${remaining}`, `${this.holds.size}`];
  }

  #refused({ attempt }: Ask, reason: string): string[] {
    if (this.#leave(attempt) || this.#freed) this.#handOver();
    return ['refused', attempt, `${this.#now}`, reason];
  }

  /** The retry time and the number of waiters ahead are exact here; the scripts give bounds. */
  #busy({ attempt }: Ask): string[] {
    const deadlines = [...this.holds.values()].map(({ deadline }) => deadline - this.#now);
    const retry = deadlines.length > 0 ? Math.min(...deadlines) : 0;
    const place = this.queue.findIndex((waiter) => waiter.attempt === attempt);
    const writer = this.holds.get(this.#latestWriter?.attempt ?? '');
    const holder = writer?.token ? this.#latestWriter!.holder : '';
    return ['busy', attempt, `${this.#now}`, `${retry}`, `${Math.max(place, 0)}`, holder];
  }

  #admits({ mode, limit }: Ask): boolean {
    const held = [...this.holds.values()];
    if (mode === 'write') return held.length === 0;
    return held.every((hold) => hold.mode === 'read') && (limit === 0 || held.length < limit);
  }

  #nextToken(): number {
    return Math.max(this.token + 1, this.#micros);
  }

  #enqueue(ask: Ask): void {
    const waiter = { ...ask, deadline: this.#now + ask.waiterLeaseMs };
    const place = this.queue.findIndex(({ attempt }) => attempt === ask.attempt);
    if (place < 0) this.queue.push(waiter);
    else this.queue[place] = waiter;
  }

  /** Makes a new queue, so that a loop over the old one is not disturbed. */
  #leave(attempt: string): boolean {
    const before = this.queue.length;
    this.queue = this.queue.filter((waiter) => waiter.attempt !== attempt);
    return this.queue.length < before;
  }

  /** Waiters are judged when somebody looks at them: is this one still there? */
  #look(waiter: Waiter): boolean {
    waiter.deadline = Math.min(waiter.deadline, this.#now + waiter.waiterLeaseMs);
    return waiter.deadline > this.#now || !this.#leave(waiter.attempt);
  }

  #handOver(me?: string): number | undefined {
    let mine: number | undefined;
    this.#freed = false;
    for (const waiter of this.queue) {
      if (!this.queue.includes(waiter) || !this.#look(waiter)) continue;
      if (!this.#admits(waiter)) break;
      if (waiter.attempt === me) {
        mine = this.#nextToken();
        this.#leave(me);
        this.#grant(waiter, mine, waiter.leaseMs);
      } else if (waiter.fair) this.#push(waiter);
      else if (this.#wakeSome()) break;
    }
    return mine;
  }

  #push(waiter: Waiter): void {
    this.#leave(waiter.attempt);
    const client = clientOf(waiter.attempt);
    if (!this.hears(client)) return;
    const lease = Math.min(waiter.leaseMs, waiter.waiterLeaseMs);
    this.#grant(waiter, this.#nextToken(), lease);
    this.pushes.push(`${client} granted ${waiter.attempt} ${this.token} ${this.#now} ${lease}`);
  }

  /** Two unfair waiters of different clients, of those that the lock would admit. */
  #wakeSome(): boolean {
    const woken = new Set<string>();
    for (const waiter of this.queue) {
      const client = clientOf(waiter.attempt);
      if (woken.size === 2) break;
      if (!this.#look(waiter) || waiter.fair || woken.has(client) || !this.#admits(waiter)) continue;
      if (this.hears(client)) woken.add(client);
      else this.#leave(waiter.attempt);
      if (this.hears(client)) this.pushes.push(`${client} wake ${waiter.attempt}`);
    }
    return woken.size > 0;
  }

  #wasReleased(attempt: string): boolean {
    return this.#released.includes(attempt.slice(-8));
  }
}
