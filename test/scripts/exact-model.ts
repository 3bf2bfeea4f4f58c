import { type Ask, type Downgrade, type ForceRelease, type Hold } from './commands.js';
import { type Release, type Renew, remember } from './commands.js';
import { HandOverModel } from './hand-over-model.js';
import { LockLists } from './lock-lists.js';
import { admits, busyReply, claimedBy, endRun, entry, refusal, shareEntry, startRun } from './lock-rules.js';

/** A script's reply; the game compares it as text. */
export type Reply = (string | number)[];

/** Locks in memory, to the last field; what a client may rely on is in the reference model. Written from the scripts' headers. */
export class ExactModel extends HandOverModel {
  readonly #locks = new Map<string, LockLists>();

  lock(key: string): LockLists {
    if (!this.#locks.has(key)) this.#locks.set(key, new LockLists());
    return this.#locks.get(key)!;
  }

  acquire(ask: Ask): Reply {
    const { attempt } = ask;
    const locks = ask.keys.map((key) => this.#swept(key));
    const [now] = locks.map((lock) => lock.now) as [number];
    const reason = locks.map((lock) => refusal(lock, ask)).find((found) => found !== undefined);
    if (reason) {
      for (const lock of locks) lock.leave(attempt);
      for (const lock of locks) if (lock.freed) this.serve(lock);
      return ['refused', attempt, now, reason, claimedBy(locks[0]!, ask, reason)];
    }
    const needed = locks.filter((lock) => !lock.liveHold(attempt) && entry(lock, ask) === undefined);
    for (const lock of locks) {
      const waiter = lock.waiter(attempt);
      if (waiter && !lock.look(waiter)) lock.freed = true;
    }
    const [busy] = needed.filter((lock) => !this.#hasTurn(lock, ask));
    if (busy) {
      for (const [i, lock] of locks.entries()) {
        const past = i > locks.indexOf(busy);
        if (past) lock.leave(attempt);
        else if (ask.waiterLeaseMs && (needed.includes(lock) || lock.waiter(attempt))) lock.enqueue(ask);
        if (past ? lock.freed : !ask.fair || lock.freed) this.serve(lock, past ? undefined : attempt);
      }
      return busyReply(busy, attempt);
    }
    const holds = locks.map((lock) => this.#take(lock, ask, needed.includes(lock) ? undefined : entry(lock, ask)));
    const remaining = Math.min(...holds.map(({ deadline }) => deadline - now));
    const tokens = holds.map(({ token }) => token);
    if (tokens.length > 1) return ['granted', attempt, now, remaining, ...tokens];
    const [{ run, holds: all }] = locks as [LockLists];
    const fire = run?.attempt === attempt ? run.fire : '';
    return ['granted', attempt, now, tokens[0]!, remaining, all.size, fire];
  }

  release({ key, attempt, minHoldMs, runOutcome }: Release): Reply {
    const before = this.lock(key).holds.has(attempt);
    const lock = this.#swept(key);
    const hold = lock.holds.get(attempt);
    let outcome = before ? 'expired' : 'unknown';
    if (hold?.token) {
      outcome = 'released';
      lock.end(attempt);
      const deadline = Math.min(hold.since, lock.now) + minHoldMs;
      if (deadline > lock.now) lock.holds.set(attempt, { ...hold, deadline, lease: deadline - lock.now, token: 0 });
      endRun(lock, attempt, runOutcome);
    } else if (lock.waiter(attempt)) outcome = 'cancelled';
    else if (lock.wasForced(attempt)) outcome = 'forced';
    else if (hold || lock.wasReleased(attempt)) outcome = 'again';
    lock.remove(attempt);
    remember(lock.released, attempt);
    this.serve(lock);
    return [outcome, attempt, lock.now, lock.holds.size, lock.token];
  }

  renew({ key, attempt, token, leaseMs }: Renew): Reply {
    const lock = this.#swept(key);
    const hold = lock.liveHold(attempt, token);
    if (hold) lock.stretch(hold, leaseMs);
    if (lock.freed) this.serve(lock);
    return hold ? ['renewed', attempt, lock.now, hold.deadline - lock.now] : lost(lock, attempt);
  }

  downgrade({ key, attempt, token }: Downgrade): Reply {
    const lock = this.#swept(key);
    const hold = lock.liveHold(attempt, token);
    if (hold?.mode === 'write') {
      hold.mode = 'read';
      shareEntry(lock, hold);
      lock.freed = true;
    }
    if (lock.freed) this.serve(lock);
    return hold ? ['downgraded', attempt, lock.now] : lost(lock, attempt);
  }

  forceRelease({ key, attempt }: ForceRelease): Reply {
    const lock = this.#swept(key);
    const again = lock.wasForced(attempt);
    const ended = again ? [] : [...lock.holds.keys()].sort();
    for (const held of ended.filter((one) => lock.liveHold(one))) {
      remember(lock.released, held);
      remember(lock.forced, held);
      this.tell(held, `revoked ${held}`);
    }
    for (const held of ended) lock.end(held);
    if (ended.length > 0) remember(lock.forced, attempt);
    if (lock.freed) this.serve(lock);
    return [again ? 'again' : 'forced', attempt, lock.now, ended.length];
  }

  #swept(key: string): LockLists {
    this.lock(key).sweep(Math.floor(this.micros / 1000));
    return this.lock(key);
  }

  #hasTurn(lock: LockLists, ask: Ask): boolean {
    if (!ask.fair) return admits(lock, ask);
    return this.serve(lock, ask.attempt) || (lock.queue.length === 0 && admits(lock, ask));
  }

  #take(lock: LockLists, ask: Ask, ownerToken?: number): Hold {
    const held = lock.liveHold(ask.attempt);
    if (held) lock.stretch(held, ask.leaseMs);
    else {
      lock.leave(ask.attempt);
      this.grant(lock, ask, ask.leaseMs, ownerToken);
      startRun(lock, ask);
    }
    if (!held || lock.freed) this.serve(lock);
    return lock.holds.get(ask.attempt)!;
  }
}

const lost = (lock: LockLists, attempt: string): Reply => [
  'lost',
  attempt,
  lock.now,
  lock.token,
  lock.wasForced(attempt) ? 1 : 0,
];
