// Processes campaign for the same leads.
import { setTimeout as sleep } from 'node:timers/promises';
import { Hold, codeOf } from './hold.mjs';

/** The share of the processes that campaign for each lead: one that is alone is elected again at once. */
const LEADS = { lead0: 1, lead1: 0.5 };
const LEASES = [500, 1_000];

const STEP_MS = 20;
const RESIGNS_IN_A_STEP = 0.005;

/** How long work continues after its term. The last ones are longer than the app drains (./clients). */
const GOES_ON_MS = [0, 0, 0, 30, 200, 900, 2_500];

/** A leader that steps down waits for its work, but no longer than the drain; then it releases its lock. */
const STEPS_DOWN_WITHIN_MS = 2_000;

/** Campaigns until the process is asked to stop. */
export const startLeads = (run) =>
  Object.entries(LEADS)
    .filter(([, share]) => run.random.chance(share))
    .map(([key]) => new Campaign(run, key).run());

/** The campaign of a process. Each of its terms is an operation of the history. */
class Campaign {
  #run;
  #key;
  #leaseMs;
  #leadership;
  #terms = 0;
  /** The term for which it waits; undefined while it leads, and until the work of the last term has ended. */
  #awaited;
  #leading;
  #work = Promise.resolve();

  constructor(run, key) {
    this.#run = run;
    this.#key = key;
    this.#leaseMs = run.random.pick(LEASES);
  }

  async run() {
    const { client, log, random } = this.#run;
    this.#leadership = client.lead(this.#key, {
      leaseMs: this.#leaseMs,
      onElected: (lock, signal) => (this.#work = this.#lead(lock, signal)),
      onDemoted: (reason) => log('demoted', { op: this.#leading, reason }),
    });
    this.#campaign();
    while (!this.#run.isStopping) {
      await sleep(STEP_MS);
      if (this.#leadership.isLeader() && random.chance(RESIGNS_IN_A_STEP)) await this.#stepDown('resign');
    }
    await this.#stepDown('stop');
    await this.#work;
  }

  #campaign() {
    const { config, log } = this.#run;
    this.#terms += 1;
    const op = `${config.name}:${this.#key}:${this.#terms}`;
    this.#awaited = op;
    log('campaigns', { op, key: this.#key, leaseMs: this.#leaseMs });
    this.#leadership.waitUntilLeader().catch((error) => log('failed', { op, code: codeOf(error) }));
    return op;
  }

  /** Works until the end of the term, and sometimes for longer; then it waits for the next one. */
  async #lead(lock, signal) {
    const { log, random } = this.#run;
    const op = this.#awaited ?? this.#campaign();
    this.#awaited = undefined;
    this.#leading = op;
    const term = new Hold(this.#run, op, { keys: [this.#key], leaseMs: this.#leaseMs }, lock);
    term.begin();
    while (!signal.aborted) await this.#step(term);
    for (let ms = random.pick(GOES_ON_MS); ms > 0; ms -= STEP_MS) await this.#step(term);
    term.end();
    log('released', { op, wasHeld: false });
    this.#campaign();
  }

  async #step(term) {
    const base = await term.read();
    await sleep(STEP_MS);
    await term.write(base);
  }

  async #stepDown(what) {
    const { log } = this.#run;
    const op = this.#leading ?? this.#awaited;
    log('asks', { op, what, withinMs: STEPS_DOWN_WITHIN_MS });
    await this.#leadership[what]();
    log('answered', { op, what });
  }
}
