import { closeAll } from '../../support/apps/lock-app.js';
import { BUSY, FREE, HANDLES, type KitCase } from './support/kit-calls.js';
import { AWAY, CLOSED } from './support/kit-states.js';
import { DECORATED, JOBS, STREAMS } from './support/kit-methods.js';
import { HOLDS, STATES } from './support/kit-states.js';
import { ended, record } from './support/kit-told.js';
import { type KitName, KITS, type World } from './support/kits.js';

type Start = (kit: KitName) => Promise<World>;

async function play(world: World, run: KitCase[1]) {
  const events = record(world.locks.events);
  const result = await ended((async () => run(world))());
  // The network decides whether the operator or the holder is told first.
  const isForced = (event: unknown): boolean => (event as readonly unknown[])[0] === 'forced';
  return { ended: result, events: events.filter((event) => !isForced(event)), forced: events.filter(isForced) };
}

const startFor =
  ([, , options]: KitCase): Start =>
  (kit) =>
    KITS[kit]({ drainMs: 0, ...options });

/** Plays a case on an app of each kind. */
const playAll = (one: KitCase, start: Start = startFor(one)) =>
  Promise.all((['redis', 'memory', 'fake'] as const).map(async (kit) => play(await start(kit), one[1])));

function expectSame([onRedis, inMemory, faked]: Awaited<ReturnType<typeof playAll>>): void {
  expect({ inMemory, faked }).toEqual({ inMemory: onRedis, faked: onRedis });
}

const titled = (cases: readonly KitCase[]) => cases.map((one) => [one[0], one] as const);

const TABLE: Readonly<Record<string, readonly KitCase[]>> = {
  'a lock that is busy': BUSY,
  'a handle': HANDLES,
  'a lock that is held': HOLDS,
  'a look at locks': STATES,
  'a decorated method': DECORATED,
  'a stream': STREAMS,
  'a job': JOBS,
  'a call at the end of the app': CLOSED,
};

const isOfOutage = ([title]: KitCase): boolean => title.includes('while Redis is away');

describe.each(Object.entries(TABLE))('%s is the same with both kits as on Redis', (_what, cases) => {
  afterEach(closeAll);

  it.each(titled(cases.filter((one) => !isOfOutage(one))))('%s', async (_title, one) => expectSame(await playAll(one)));
});

describe('a lock that is free is the same with both kits as on Redis', () => {
  // These leave nothing held, so they share their apps.
  const worlds = new Map<KitName, Promise<World>>();
  const start: Start = (kit) => worlds.get(kit) ?? worlds.set(kit, startFor(FREE[0]!)(kit)).get(kit)!;
  afterAll(closeAll);

  it.each(titled(FREE))('%s', async (_title, one) => expectSame(await playAll(one, start)));
});

describe('a call while Redis is away is the same with both kits as on Redis', () => {
  const cases = [...AWAY, ...Object.values(TABLE).flat().filter(isOfOutage)];
  let played: Map<KitCase, Awaited<ReturnType<typeof playAll>>>;

  // Each waits for a second or more, so they wait side by side.
  beforeAll(async () => {
    played = new Map(await Promise.all(cases.map(async (one) => [one, await playAll(one)] as const)));
  });
  afterAll(closeAll);

  it.each(titled(cases))('%s', (_title, one) => expectSame(played.get(one)!));
});
