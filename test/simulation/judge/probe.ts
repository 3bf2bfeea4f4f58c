import { type Application } from '../workload/application.js';
import { type Call, type Outcome } from '../workload/call.js';
import { type Caller } from '../workload/caller.js';
import { type Facts, KEY_PREFIX } from './facts.js';
import { REPLICA_MS } from './calm.js';

/** Its calls have numbers from here on. */
const FIRST_ID = 1_000_000;

/** How far time passes between two looks at it. */
const STEP_MS = 20;

/** One call of a lock that nobody holds. */
const PROBE = { entry: 'tryAcquire', options: { mode: 'write', leaseMs: 2_000, waitMs: 0 }, holdMs: 0, at: 0 } as const;

/**
 * After all has calmed down, every key that was ever used can be locked at once, by every process. The calls are judged as
 * all others: their tokens exceed all before.
 */
export class Probe {
  #id = FIRST_ID;

  constructor(
    private readonly facts: Facts,
    private readonly caller: Caller,
  ) {}

  async run(apps: readonly Application[]): Promise<void> {
    const { network } = this.facts;
    const keys = new Set(network.servers.flatMap((server) => server.keys));
    for (const app of apps) {
      // A process that made no call for long may have to notice first that its client is gone.
      if (app.given && app.given.status !== 'ready') continue;
      for (const key of keys) await this.#probe(key.slice(KEY_PREFIX.length), app);
    }
  }

  async #probe(key: string, app: Application): Promise<void> {
    const { world } = this.facts;
    let outcome = await this.#call(key, app);
    if (outcome === 'LockStoreError' && app.given && world.violations.length === 0) {
      // Its server may be a replica since its last call.
      await world.run(world.now + REPLICA_MS);
      outcome = await this.#call(key, app);
    }
    if (world.violations.length > 0 || outcome === 'granted') return;
    world.violate('3: at the end, each key can be locked', `${key} in ${app.process.name}: ${outcome}`);
  }

  async #call(key: string, app: Application): Promise<Outcome | null | undefined> {
    const { world, calls } = this.facts;
    const id = (this.#id += 1);
    const plan = { ...PROBE, id, slot: app.process.slot, keys: [key], steps: [], listens: false, afterLossMs: 0 };
    world.after(0, app.process, 'plan', () => void this.caller.run(plan, app));
    // The first answer takes a second at most, and so does a release.
    const until = world.now + 2_100;
    const made = (): Call | undefined => calls.get(`c${id}`);
    while (world.violations.length === 0 && world.now < until && !isDone(made())) await world.run(world.now + STEP_MS);
    return made()?.outcome;
  }
}

const isDone = (call: Call | undefined): boolean =>
  call !== undefined && !call.isPending && (call.held?.doneAt ?? 0) < Infinity;
