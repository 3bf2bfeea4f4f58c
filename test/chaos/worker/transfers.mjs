// Transferred locks: a text goes from one process to another, or to two, or is lost.
import { setTimeout as sleep } from 'node:timers/promises';
import process from 'node:process';
import { Hold, codeOf } from './hold.mjs';

/** How many processes get a text. */
const USES = [0, 1, 1, 1, 1, 1, 2, 2];

/** How long a text is under way, at most. */
const WAYS_MS = [0, 0, 20, 100, 400];

/** Passes texts on, and adopts the locks of those that come from other processes, or from this one. */
export class Transfers {
  #run;
  #adoptions = 0;
  #pending = new Set();

  constructor(run) {
    this.#run = run;
  }

  /** Gives a parcel to the parent, which chooses who gets it. */
  pass({ call, ...parcel }) {
    const { random } = this.#run;
    const uses = random.pick(USES);
    // A failover may let both adopt it, with one token: docs/guarantees.md, "A lock that changes hands".
    const passed = { ...parcel, call: { ...call, isFenced: call.isFenced && uses === 1, isNested: false } };
    // Two that come at the same moment find out whether the first one still has the lock.
    const afterMs = this.#wayMs(parcel.leaseMs);
    for (let i = 0; i < uses; i += 1) process.send({ parcel: { ...passed, afterMs } });
  }

  /** A parcel has come. */
  receive(parcel) {
    const adopting = this.#adopt(parcel).finally(() => this.#pending.delete(adopting));
    this.#pending.add(adopting);
  }

  /** Resolves when all adopted locks have been released. */
  async idle() {
    while (this.#pending.size > 0) await Promise.all(this.#pending);
  }

  /** Some texts come when their lease is over. */
  #wayMs(leaseMs) {
    const { random } = this.#run;
    return random.chance(0.1) ? leaseMs + random.between(1_200, 2_000) : random.between(0, random.pick(WAYS_MS));
  }

  async #adopt({ from, call, text, leaseMs, afterMs }) {
    await sleep(afterMs);
    const { client, config, log, isStopping } = this.#run;
    if (isStopping) return;
    this.#adoptions += 1;
    const op = `${config.name}:adopted:${this.#adoptions}`;
    const { keys, mode, permits, owner } = call;
    log('adopts', { op, from, keys, mode, leaseMs, permits, owner });
    let lock;
    try {
      lock = await client.adopt(text);
    } catch (error) {
      log('failed', { op, code: codeOf(error) });
      return;
    }
    await new Hold(this.#run, op, { ...call, leaseMs }, lock).work();
  }
}
