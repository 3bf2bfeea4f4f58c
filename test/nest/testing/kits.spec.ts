import { closeAll } from '../../support/apps/lock-app.js';
import { BUSY, FREE, HANDLES, type KitCase } from './support/kit-calls.js';
import { AWAY, CLOSED } from './support/kit-ends.js';
import { DECORATED, JOBS, STREAMS } from './support/kit-methods.js';
import { HOLDS, STATES } from './support/kit-states.js';
import { ended, record } from './support/kit-told.js';
import { type KitName, KITS } from './support/kits.js';

afterEach(closeAll);

async function play(kit: KitName, [, run, options]: KitCase) {
  const world = await KITS[kit]({ drainMs: 0, ...options });
  const events = record(world.locks.events);
  const result = await ended((async () => run(world))());
  // The network decides whether the operator or the holder is told first.
  const isForced = (event: unknown): boolean => (event as readonly unknown[])[0] === 'forced';
  return { ended: result, events: events.filter((event) => !isForced(event)), forced: events.filter(isForced) };
}

const TABLE: Readonly<Record<string, readonly KitCase[]>> = {
  'a lock that is free': FREE,
  'a lock that is busy': BUSY,
  'a handle': HANDLES,
  'a lock that is held': HOLDS,
  'a look at locks': STATES,
  'a decorated method': DECORATED,
  'a stream': STREAMS,
  'a job': JOBS,
  'a call while Redis is away': AWAY,
  'a call at the end of the app': CLOSED,
};

describe.each(Object.entries(TABLE))('%s is the same with both kits as on Redis', (_what, cases) => {
  it.each(cases.map((one) => [one[0], one] as const))('%s', async (_title, one) => {
    const kits = ['redis', 'memory', 'fake'] as const;
    const [onRedis, inMemory, faked] = await Promise.all(kits.map((kit) => play(kit, one)));
    expect({ inMemory, faked }).toEqual({ inMemory: onRedis, faked: onRedis });
  });
});
