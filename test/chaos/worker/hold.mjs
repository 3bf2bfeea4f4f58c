import { setTimeout as sleep } from 'node:timers/promises';
import { MISUSE } from './misuse.mjs';
import { now } from './standstills.mjs';
import { workMs } from './workload.mjs';

const STEP_MS = 20;
/** Smaller changes of a proof are not logged. */
const MOVED_MS = 10;

/** The share of the holds that are transferred instead of released, if their handles can be. */
const TRANSFERRED = 0.1;

/** An error of the platform, such as that of an aborted wait, has a number for its code. */
export const codeOf = (error) => (typeof error?.code === 'string' ? error.code : (error?.name ?? String(error)));

/** Notes an error that comes after the grant, unless it is of the library: those show in other events, but for the misuse. */
export function logStray(log, what, error) {
  const code = codeOf(error);
  if (!code.startsWith('LOCK_') || MISUSE.includes(code))
    log('error', { what, code, text: String(error?.stack ?? error) });
}

/** One lock that was granted, until its work is done. */
export class Hold {
  #run;
  #op;
  #call;
  #lock;
  #until = -Infinity;
  /** The longest requested lease. */
  #leaseMs;

  constructor(run, op, call, lock) {
    this.#run = run;
    this.#op = op;
    this.#call = call;
    this.#lock = lock;
    this.#leaseMs = call.leaseMs;
  }

  #log(e, fields) {
    this.#run.log(e, { op: this.#op, ...fields });
  }

  /** Works under the lock, then releases or transfers it, unless its client releases it. */
  async work() {
    this.#lock.onLost((reason) => this.#log('lost', { reason }));
    let isTransferred = false;
    try {
      this.begin();
      await this.#steps();
      isTransferred = await this.#transfer();
    } finally {
      this.end();
      if (!isTransferred) await this.#release();
    }
  }

  /** Notes the grant, and from now on how long it can be proven. */
  begin() {
    const lock = this.#lock;
    this.#until = lock.until() ?? 0;
    this.#log('granted', { tokens: lock.tokens, until: this.#until });
    if (!lock.held()) this.#log('unheld');
    this.#run.holds.add(this);
  }

  end() {
    this.#run.holds.delete(this);
  }

  /** Notes how long the lease can be proven. */
  prove() {
    const until = this.#lock.until();
    if (this.#until === Infinity || until === null || until < this.#until + MOVED_MS) return;
    this.#until = until;
    this.#log('proof', { until });
  }

  async #steps() {
    const { random } = this.#run;
    const ms = workMs(random, this.#call);
    const base = this.#call.isFenced ? await this.read() : undefined;
    if (this.#call.isNested && this.#lock.nested) await this.#nested();
    if (this.#lock.extend && random.chance(0.05)) await this.#extend();
    for (const end = now() + ms; now() < end;) {
      await sleep(Math.min(STEP_MS, end - now()));
      if (!this.act()) return;
    }
    if (base) await this.write(base);
    if (this.#call.downgrades && this.#call.mode === 'write' && this.#lock.downgrade) await this.#downgrade();
  }

  /** Checks whether the lock is held, and reports it. */
  act() {
    // The clock is read first, so that it held the lock at this moment, or later.
    const at = now();
    const isHeld = this.#lock.held();
    this.#run.log(isHeld ? 'act' : 'unheld', { op: this.#op }, at);
    return isHeld;
  }

  /** Reads what it will write. */
  read() {
    return this.#run.resource({ read: this.#call.keys[0], token: this.#lock.tokens?.[0] });
  }

  /** Writes what it has read and counted up, if it holds the lock. */
  async write({ plain, fenced }) {
    if (!this.act()) return;
    if (fenced !== null) this.#log('writes', { was: fenced });
    const token = this.#lock.tokens?.[0];
    const { isAccepted } = await this.#run.resource({ write: this.#call.keys[0], token, plain, fenced });
    if (fenced !== null) this.#log('wrote', { isAccepted });
  }

  async #nested() {
    await this.#lock.nested((token) => this.#log('nested', { token })).catch((error) => this.#stray('nested', error));
  }

  async #extend() {
    const leaseMs = this.#run.random.between(500, 4_000);
    this.#leaseMs = Math.max(this.#leaseMs, leaseMs);
    this.#log('longer', { leaseMs });
    await this.#ask('extend', this.#extendedWithinMs, () => this.#lock.extend(leaseMs));
    this.prove();
  }

  /** The deadline: the end of the lease that is proven now, and of a renewal meanwhile. */
  get #extendedWithinMs() {
    return 2 * this.#leaseMs + 1_000;
  }

  /** Transfers the lock to other processes, one of which may adopt it. Returns whether its handle counts as released. */
  async #transfer() {
    const { random, transfers } = this.#run;
    const lock = this.#lock;
    if (!transfers || !lock.transfer || !random.chance(TRANSFERRED) || !lock.held()) return false;
    const leaseMs = random.chance(0.3) ? random.between(300, 3_000) : this.#call.leaseMs;
    this.#leaseMs = Math.max(this.#leaseMs, leaseMs);
    this.#log('longer', { leaseMs });
    const asked = now();
    const text = await this.#ask('transfer', this.#extendedWithinMs, () => lock.transfer(leaseMs));
    if (text === undefined) return false;
    this.#log('transferred', { asked, leaseMs });
    transfers.pass({ from: this.#op, text, leaseMs: this.#leaseMs, call: { ...this.#call, mode: lock.mode() } });
    // What the first process still sends changes nothing.
    await sleep(random.between(0, 50));
    this.#log('spent', { isHeld: lock.held() || (await lock.release()) });
    return true;
  }

  async #downgrade() {
    this.#log('reads');
    await this.#ask('downgrade', this.#call.leaseMs + 1_000, () => this.#lock.downgrade());
    await sleep(this.#run.random.between(0, 30));
    this.act();
  }

  /** An error says that it is lost, or that Redis did not answer; both show in other events. Then there is no answer. */
  async #ask(what, withinMs, ask) {
    this.#log('asks', { what, withinMs });
    const answer = await ask().catch((error) => this.#stray(what, error));
    this.#log('answered', { what });
    return answer;
  }

  #stray(what, error) {
    logStray(this.#run.log, `${what} of ${this.#op}`, error);
  }

  async #release() {
    this.prove();
    this.#log('releasing');
    const wasHeld = await this.#ask('release', 1_000, () => this.#lock.release());
    this.#log('released', { wasHeld: wasHeld === true });
  }
}
