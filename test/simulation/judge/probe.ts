import { type Application } from '../workload/application.js';
import { type Call } from '../workload/call.js';
import { type Caller } from '../workload/caller.js';
import { type PlannedCall } from '../workload/plan.js';
import { type World } from '../world/world.js';
import { type Facts, KEY_PREFIX } from './facts.js';

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
  constructor(
    private readonly facts: Facts,
    private readonly caller: Caller,
  ) {}

  async run(apps: readonly Application[]): Promise<void> {
    const { world, network } = this.facts;
    const keys = new Set(network.servers.flatMap((server) => server.keys));
    let id = FIRST_ID;
    for (const app of apps) {
      // A process that made no call for long may have to notice first that its client is gone.
      if (app.given && app.given.status !== 'ready') continue;
      for (const key of keys) {
        id += 1;
        await this.#probe({ ...PROBE, id, slot: app.process.slot, keys: [key.slice(KEY_PREFIX.length)] }, app, world);
      }
    }
  }

  async #probe(call: Omit<PlannedCall, 'steps' | 'listens' | 'afterLossMs'>, app: Application, world: World) {
    const plan = { ...call, steps: [], listens: false, afterLossMs: 0 };
    world.after(0, app.process, 'plan', () => void this.caller.run(plan, app));
    // The first answer takes a second at most, and so does a release.
    const until = world.now + 2_100;
    const made = (): Call | undefined => this.facts.calls.get(`c${call.id}`);
    while (world.violations.length === 0 && world.now < until && !isDone(made())) await world.run(world.now + STEP_MS);
    if (world.violations.length > 0 || made()?.outcome === 'granted') return;
    const text = `${call.keys.join()} in ${app.process.name}: ${made()?.outcome}`;
    world.violate('3: at the end, each key can be locked', text);
  }
}

const isDone = (call: Call | undefined): boolean =>
  call !== undefined && !call.isPending && (call.held?.doneAt ?? 0) < Infinity;
