import { setTimeout as sleep } from 'node:timers/promises';
import { now } from './standstills.mjs';
import { nextCall, workMs } from './workload.mjs';

const STEP_MS = 20;
/** A proof that moved by less is not worth a line. */
const MOVED_MS = 10;

/** Makes one call after the other. */
export class Lane {
  #run;
  #name;
  #calls = 0;

  constructor(run, name) {
    this.#run = run;
    this.#name = name;
  }

  async run() {
    const { random, config } = this.#run;
    while (!this.#run.isStopping) {
      const call = nextCall(random, config.workload);
      const calls = Array.from({ length: call.callers }, () => this.#run.turnstile.pass(() => this.call(call)));
      await Promise.all(calls);
      await sleep(random.between(0, config.pauseMs));
    }
  }

  async call(call) {
    const { client, log } = this.#run;
    this.#calls += 1;
    const op = `${this.#name}:${this.#calls}`;
    const { keys, mode, leaseMs, waitMs, abortAfterMs, permits, owner, fair } = call;
    log('call', { op, keys, mode, leaseMs, waitMs, abortAfterMs, permits, owner, fair });
    let settled = false;
    try {
      await client.use(call, async (lock) => {
        settled = true;
        await new Hold(this.#run, op, call, lock).work();
      });
    } catch (error) {
      // An error of the library after the grant is the loss that the signal has told of.
      if (settled) logStray(log, `call ${op}`, error);
      else log('failed', { op, code: codeOf(error) });
      if (!settled && error?.code !== 'LOCK_BUSY') await sleep(5);
    }
  }
}

/** An error of the platform, such as that of an aborted wait, has a number for its code. */
const codeOf = (error) => (typeof error?.code === 'string' ? error.code : (error?.name ?? String(error)));

/** Notes an error that comes after the grant, unless it is of the library: those show in other events. */
function logStray(log, what, error) {
  const code = codeOf(error);
  if (!code.startsWith('LOCK_')) log('error', { what, code, text: String(error?.stack ?? error) });
}

/** One lock that was granted, until its work is done. */
export class Hold {
  #run;
  #op;
  #call;
  #lock;
  #until = -Infinity;

  constructor(run, op, call, lock) {
    this.#run = run;
    this.#op = op;
    this.#call = call;
    this.#lock = lock;
  }

  #log(e, fields) {
    this.#run.log(e, { op: this.#op, ...fields });
  }

  /** Works under the lock, then releases it, unless its client releases it. */
  async work() {
    const lock = this.#lock;
    lock.onLost((reason) => this.#log('lost', { reason }));
    this.#until = lock.until() ?? 0;
    this.#log('granted', { tokens: lock.tokens, until: this.#until });
    if (!lock.held()) this.#log('unheld');
    this.#run.holds.add(this);
    try {
      await this.#steps();
    } finally {
      this.#run.holds.delete(this);
      await this.#release();
    }
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
    const base = this.#call.isFenced ? await this.#read() : undefined;
    if (this.#call.isNested && this.#lock.nested) await this.#nested();
    if (this.#lock.extend && random.chance(0.05)) await this.#extend();
    for (const end = now() + ms; now() < end;) {
      await sleep(Math.min(STEP_MS, end - now()));
      if (!this.#act()) return;
    }
    if (base) await this.#write(base);
    if (this.#call.downgrades && this.#call.mode === 'write' && this.#lock.downgrade) await this.#downgrade();
  }

  /** Looks whether the lock is held, and says so. */
  #act() {
    const isHeld = this.#lock.held();
    this.#log(isHeld ? 'act' : 'unheld');
    return isHeld;
  }

  #read() {
    return this.#run.resource({ read: this.#call.keys[0], token: this.#lock.tokens?.[0] });
  }

  async #write({ plain, fenced }) {
    if (!this.#act()) return;
    await this.#run.resource({ write: this.#call.keys[0], token: this.#lock.tokens?.[0], plain, fenced });
  }

  async #nested() {
    await this.#lock.nested((token) => this.#log('nested', { token })).catch((error) => this.#stray('nested', error));
  }

  async #extend() {
    const leaseMs = this.#run.random.between(500, 4_000);
    // It has time until the lease that is proven now is over, and until that of a renewal meanwhile.
    const withinMs = 2 * Math.max(leaseMs, this.#call.leaseMs) + 1_000;
    this.#log('longer', { leaseMs });
    await this.#ask('extend', withinMs, () => this.#lock.extend(leaseMs));
    this.prove();
  }

  async #downgrade() {
    this.#log('reads');
    await this.#ask('downgrade', this.#call.leaseMs + 1_000, () => this.#lock.downgrade());
    await sleep(this.#run.random.between(0, 30));
    this.#act();
  }

  /** An error says that it is lost, or that Redis did not answer; both show in other events. */
  async #ask(what, withinMs, ask) {
    this.#log('asks', { what, withinMs });
    await ask().catch((error) => this.#stray(what, error));
    this.#log('answered', { what });
  }

  #stray(what, error) {
    logStray(this.#run.log, `${what} of ${this.#op}`, error);
  }

  async #release() {
    this.prove();
    this.#log('releasing');
    this.#log('asks', { what: 'release', withinMs: 1_000 });
    const wasHeld = await this.#lock.release().catch((error) => this.#stray('release', error));
    this.#log('answered', { what: 'release' });
    this.#log('released', { wasHeld: wasHeld === true });
  }
}
