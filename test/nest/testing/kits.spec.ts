import { type Key, type LockHolder, type LockOptions, type LockState } from '../../../lib/index.js';
import { closeAll } from '../../support/apps/lock-app.js';
import { eventually } from '../../support/waiting/eventually.js';
import { gate } from '../../support/waiting/gate.js';
import { ended, type KitOptions, KITS, record, type World } from './support/kits.js';

/** An action in a world, and its result. */
type KitCase = readonly [title: string, run: (world: World) => unknown, options?: KitOptions];

const acquiring =
  (key: Key, options?: LockOptions): KitCase[1] =>
  async ({ locks }) => {
    const lock = await locks.acquire(key, options);
    const seen = await ended(Promise.resolve(lock));
    await lock.release();
    return seen;
  };

const seventeen = Array.from({ length: 17 }, (_, i) => `k${i}`);
const gone = AbortSignal.abort(new Error('gone'));

/** Calls of the service when the lock is free. They leave nothing held. */
const FREE: readonly KitCase[] = [
  ['acquire of a key', acquiring('a')],
  ['acquire of two keys', acquiring(['b', 'a'])],
  ['acquire of sixteen keys, one of them twice', acquiring([...seventeen.slice(1), 'k1'])],
  ['acquire of seventeen keys', acquiring(seventeen)],
  ['acquire of a key of 1,024 bytes', acquiring('x'.repeat(1_024))],
  ['acquire of a key of 1,025 bytes', acquiring('x'.repeat(1_025))],
  ['acquire of a key that is longer when it is encoded', acquiring('{'.repeat(400))],
  ['acquire for reading', acquiring('a', { mode: 'read' })],
  ['acquire of a permit', acquiring('a', { mode: 'read', permits: 3, perInstance: 2 })],
  ['acquire for an owner', acquiring('a', { owner: 'owner-1' })],
  ['acquire that waits forever', acquiring('a', { waitMs: Infinity })],
  ['acquire of a lock that stays taken', acquiring('kept', { holdAtLeastMs: 200 })],
  ['acquire with a wrong option', acquiring('a', { leaseMs: 49 })],
  ['acquire with a signal that is already aborted', acquiring('a', { signal: gone })],
  ['withLock', ({ locks }) => locks.withLock('a', (lock) => ended(Promise.resolve(lock)))],
  ['withLock whose work throws', ({ locks }) => locks.withLock('a', () => Promise.reject(new Error('work')))],
];

const PERMIT = { mode: 'read', permits: 1 } as const;

const failing =
  (options: LockOptions, key: Key = 'a', occupied?: LockOptions): KitCase[1] =>
  async ({ locks, occupy }) => {
    await occupy('a', occupied);
    return locks.acquire(key, options);
  };

/** Results of calls for a lock that another caller holds. */
const BUSY: readonly KitCase[] = [
  ['acquire without waiting', failing({ waitMs: 0 })],
  ['acquire that waits', failing({ waitMs: 30 })],
  ['acquire for reading that waits', failing({ waitMs: 30, mode: 'read' })],
  ['acquire of a permit that waits', failing({ waitMs: 30, ...PERMIT }, 'a', PERMIT)],
  ['acquire of a permit without waiting', failing({ waitMs: 0, ...PERMIT }, 'a', PERMIT)],
  ['acquire that waits for an owner', failing({ waitMs: 30, owner: 'owner-1' })],
  ['acquire of two keys without waiting', failing({ waitMs: 0 }, ['a', 'b'])],
  ['acquire of two keys that waits', failing({ waitMs: 30 }, ['b', 'a'])],
  ['acquire of a key that is busy, of seventeen', failing({ waitMs: 0 }, ['a', ...seventeen])],
  ['acquire by the default of the module', failing({}), { waitMs: 30 }],
  ['acquire with a signal that is already aborted', failing({ signal: gone })],
  ['acquire that waits forever, and is aborted', async ({ locks, occupy }) => {
    await occupy('a');
    const stop = new AbortController();
    locks.events.on('waiting', () => stop.abort(new Error('gone')));
    return locks.acquire('a', { waitMs: Infinity, signal: stop.signal });
  }],
  ['acquire that waits forever, and is granted', async ({ locks, occupy, vacate }) => {
    await occupy('a');
    const waits = new Promise<void>((resolve) => void locks.events.on('waiting', () => resolve()));
    const acquired = locks.acquire('a', { waitMs: Infinity });
    await waits;
    await vacate();
    const lock = await acquired;
    await lock.release();
    return lock.key;
  }],
  ['tryAcquire', async ({ locks, occupy }) => {
    await occupy('a');
    return locks.tryAcquire('a');
  }],
  ['a nested call that needs one more key', async ({ locks, occupy }) => {
    await occupy('a');
    return locks.withLock('b', () => ended(locks.withLock(['a', 'b'], { waitMs: 30 }, () => 'ran')));
  }],
]; // prettier-ignore

const holderTold = ({ owner, ...rest }: LockHolder) => ({
  ...rest,
  owner: owner.startsWith('owner') ? owner : 'an attempt',
});
/** Holds of one millisecond have no order. */
const stateTold = (state: LockState) => {
  const holders = state.holders.map(holderTold).sort((a, b) => a.mode.localeCompare(b.mode));
  return { ...state, holders };
};

/** Handles, owners, nested calls and losses. */
const HOLDS: readonly KitCase[] = [
  ['a handle is extended, downgraded, and released twice', async ({ locks }) => {
    const lock = await locks.acquire('a');
    await lock.extend(60_000);
    await lock.downgrade();
    const calls = [ended(lock.extend(0)), ended(lock.release()), ended(lock.release()), ended(lock.extend(1_000))];
    return [await Promise.all(calls), await ended(Promise.resolve(lock))];
  }],
  ['an owner enters again, with the same token', async ({ locks }) => {
    const options = { owner: 'owner-1' };
    const [first, second] = [await locks.acquire('a', options), await locks.acquire('a', options)];
    const third = await locks.acquire('a', { ...options, mode: 'read', waitMs: 0 });
    const tokens = [first, second, third].map(({ fencingToken }) => fencingToken);
    const state = stateTold(await locks.inspect('a'));
    for (const lock of [first, second, third]) await lock.release();
    return { same: new Set(tokens).size === 1, state };
  }],
  ['an owner that reads asks to write', async ({ locks }) => {
    const reading = await locks.acquire('a', { owner: 'owner-1', mode: 'read' });
    const calls = [0, 30].map((waitMs) => ended(locks.acquire('a', { owner: 'owner-1', waitMs })));
    const several = ended(locks.acquire(['b', 'a'], { owner: 'owner-1', waitMs: 0 }));
    const all = await Promise.all([...calls, several]);
    await reading.release();
    return all;
  }],
  ['an owner that wrote and was downgraded asks to write', async ({ locks }) => {
    const lock = await locks.acquire('a', { owner: 'owner-1' });
    await lock.downgrade();
    const upgrade = await ended(locks.acquire('a', { owner: 'owner-1', waitMs: 30 }));
    await lock.release();
    return upgrade;
  }],
  ['a nested call of several keys', ({ locks }) =>
    locks.withLock(['a', 'b'], () => locks.withLock(['b', 'a', 'c'], () => 'ran'))],
  ['an operator takes it away', async ({ locks }) => {
    const lost = locks.withLock('a', async ({ signal }) => {
      const revoked = await locks.forceRelease('a');
      await eventually(() => signal.aborted);
      return { revoked, again: await locks.forceRelease('a') };
    });
    return ended(lost);
  }],
  ['it is held for too long', ({ locks }) =>
    locks.withLock('a', { maxHoldMs: 30 }, async ({ signal }) => {
      await eventually(() => signal.aborted);
      return 'ran';
    })],
  ['its lease ends, and is not renewed', ({ locks }) =>
    locks.withLock('a', { leaseMs: 300, renew: false }, async (lock) => {
      await eventually(() => lock.signal.aborted);
      return ended(lock.extend(1_000));
    })],
]; // prettier-ignore

/** Texts that users read. */
const STATES: readonly KitCase[] = [
  ['inspect what is held, what was downgraded, and what was released', async ({ locks }) => {
    const lock = await locks.acquire('a');
    const states = [await locks.inspect('a')];
    await lock.downgrade();
    states.push(await locks.inspect('a'));
    await lock.release();
    return [...states, await locks.inspect('a')].map(stateTold);
  }],
  ['inspect a lock that stays taken after its release', async ({ locks }) => {
    await locks.withLock('a', { holdAtLeastMs: 60_000 }, () => undefined);
    return [stateTold(await locks.inspect('a')), await locks.isLocked('a')];
  }],
  ['inspect several keys', async ({ locks }) => {
    const lock = await locks.acquire('b');
    const states = (await locks.inspect(['a', 'b'])).map(stateTold);
    const answers = [await locks.isLocked(['a', 'b']), await locks.isLocked(['a', 'c']), await locks.isLocked(['b', 'b'])];
    const revoked = [await locks.forceRelease(['a', 'b']), await locks.forceRelease(['a', 'b'])];
    await eventually(() => lock.signal.aborted);
    return { states, answers, revoked };
  }],
  ['inspect seventeen keys', ({ locks }) => Promise.all([locks.inspect(seventeen), locks.forceRelease(seventeen)].map(ended))],
  ['list', async ({ locks }) => {
    const held = [await locks.acquire(['a:1', 'a:2']), await locks.acquire('b')];
    const listed: string[] = [];
    for await (const { key } of locks.list({ prefix: 'a:' })) listed.push(key);
    for (const lock of held) await lock.release();
    for await (const { key } of locks.list()) listed.push(`after: ${key}`);
    return listed.toSorted();
  }],
  ['activity', async ({ locks }) => {
    const during = await locks.withLock('a', () => locks.activity);
    return [during, locks.activity];
  }],
]; // prettier-ignore

/** Calls of decorated methods, and of jobs, once each: on a fake they run at every call. */
const DECORATED: readonly KitCase[] = [
  ...(['waits', 'reads', 'limited', 'slot'] as const).map((method): KitCase => [
    `${method}, which is free`,
    ({ work }) => work[method]('1'),
  ]),
  ...(['waits', 'skips', 'throws', 'answers', 'reads', 'slot', 'slotThrows', 'slotAgain'] as const).map((method): KitCase => [
    `${method}, which is busy`,
    async ({ work, occupy }) => {
      await occupy(method.startsWith('slot') ? 'slot' : 'order:1');
      return work[method]('1');
    },
  ]),
  ['limited, which is busy', async ({ work, occupy }) => {
    for (let i = 0; i < 2; i += 1) await occupy('order:1', { mode: 'read', permits: 2 });
    return work.limited('1');
  }],
  ['moves, of which one is busy', async ({ work, occupy }) => {
    await occupy('order:2');
    return work.moves('1', '2');
  }],
  ['the last run, while it runs and after it', async ({ locks, work }) => {
    work.inside = async () => ({ ...(await locks.lastRun('slot')) });
    return [await work.slot(), { ...(await locks.lastRun('slot', 'Work.slot')) }, await locks.lastRun('slot', 'Work.other')];
  }],
  ['the last run, which failed', async ({ locks, work }) => {
    work.inside = () => Promise.reject(new Error('work'));
    return [await ended(work.slot()), { ...(await locks.lastRun('slot')) }];
  }],
]; // prettier-ignore

/** Calls when the app shuts down. */
const CLOSED: readonly KitCase[] = [
  ['calls after it', async ({ app, locks, work }) => {
    await app.close();
    const jobs = [work.slot(), work.slotThrows(), work.slotAgain()];
    const calls = [locks.acquire('a'), locks.tryAcquire('a'), locks.withLock('a', () => 'ran'), locks.acquire(['a', 'b'])];
    const wrong = [locks.acquire(''), locks.acquire('a', { signal: gone })];
    return Promise.all([...calls, ...jobs, work.waits('1'), work.skips('1'), ...wrong].map(ended));
  }],
  ['calls on a busy lock after it', async ({ app, locks, work, occupy }) => {
    await occupy('order:1');
    await app.close();
    return Promise.all([locks.acquire('order:1'), work.skips('1')].map(ended));
  }],
  ['a call that runs has time to end', async ({ app, locks, work }) => {
    const until = gate();
    work.inside = () => until.opened;
    const running = ended(work.waits('1'));
    await eventually(() => locks.activity.held === 1);
    let isClosed = false;
    const closing = app.close().then(() => (isClosed = true));
    await eventually(() => work.isClosing);
    const refused = await ended(locks.acquire('a'));
    const early = isClosed;
    until.open();
    const ran = await running;
    await closing;
    return { early, refused, ran, activity: locks.activity };
  }, { drainMs: 20_000 }],
  ['a call that waits is refused', async ({ app, locks, occupy }) => {
    await occupy('a');
    const waits = new Promise<void>((resolve) => void locks.events.on('waiting', () => resolve()));
    const waiting = ended(locks.acquire('a', { waitMs: Infinity }));
    await waits;
    await app.close();
    return waiting;
  }],
  ['looks after it', async ({ app, locks }) => {
    await app.close();
    const looks = [locks.inspect('a'), locks.isLocked('a'), locks.forceRelease('a'), locks.lastRun('a')];
    return (await Promise.all(looks.map(ended))).map((look) => (look as { rejected?: { code: string } }).rejected?.code);
  }],
]; // prettier-ignore

/** Calls while Redis is away. */
const AWAY: readonly KitCase[] = [
  ['acquire', ({ locks }) => Promise.all([0, 30].map((waitMs) => ended(locks.acquire('a', { waitMs }))))],
  ['tryAcquire', ({ locks }) => locks.tryAcquire('a')],
  ['acquire of two keys', ({ locks }) => locks.acquire(['a', 'b'], { waitMs: 0 })],
  ['an aborted signal', ({ locks }) => locks.acquire('a', { signal: gone })],
  ['a wrong key', ({ locks }) => locks.acquire('')],
  ['inspect', ({ locks }) => locks.inspect('a')],
  ['isLocked', ({ locks }) => locks.isLocked('a')],
  ['forceRelease', ({ locks }) => locks.forceRelease('a')],
  ['lastRun', ({ locks }) => locks.lastRun('a')],
  ['list', async ({ locks }) => locks.list()[Symbol.asyncIterator]().next()],
  ...(['waits', 'skipsAway', 'unlocked', 'slot'] as const).map((method): KitCase => [method, ({ work }) => work[method]('1')]),
  ['waits, by the default of the module', ({ work }) => work.waits('1'), { onUnavailable: 'skip' }],
]; // prettier-ignore

const cutOffBefore = ([title, use, options]: KitCase): KitCase => [
  title,
  async (world) => {
    // The first connection may take long on a busy machine.
    await world.locks.withLock('before', { waitMs: 60_000 }, () => undefined);
    await world.cutOff();
    return use(world);
  },
  options,
];

/** The same, for a lock that is held when Redis goes away. */
const HELD_AWAY: readonly KitCase[] = [
  ['extend and downgrade', async ({ locks, cutOff }) => {
    const lock = await locks.acquire('a', { leaseMs: 10_000, renew: false });
    await cutOff();
    return [await ended(lock.extend(10_000)), await ended(lock.downgrade()), lock.held];
  }],
  ['a lock that is held when the lease ends', async ({ locks, cutOff }) => {
    const lock = await locks.acquire('a', { leaseMs: 6_000 });
    let failures = 0;
    locks.events.on('renewFailed', () => (failures += 1));
    await cutOff();
    await eventually(() => lock.signal.aborted, { timeoutMs: 20_000 });
    return { reason: lock.signal.reason.reason, failed: failures > 0 };
  }],
]; // prettier-ignore

type KitName = keyof typeof KITS;
type Start = (kit: KitName) => Promise<World>;

async function play(world: World, run: KitCase[1]) {
  const events = record(world.locks.events);
  const result = await ended((async () => run(world))());
  // The network decides whether the operator or the holder learns of it first.
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

describe.each([
  ['a lock that is busy', BUSY],
  ['a lock that is held', HOLDS],
  ['an inspection of locks', STATES],
  ['a decorated method', DECORATED],
  ['a call at the end of the app', CLOSED],
])('%s is the same with both kits as on Redis', (_what, cases) => {
  afterEach(closeAll);

  it.each(titled(cases))('%s', async (_title, one) => expectSame(await playAll(one)));
});

describe('a lock that is free is the same with both kits as on Redis', () => {
  // These leave nothing held, so they share their apps.
  const worlds = new Map<KitName, Promise<World>>();
  const start: Start = (kit) => worlds.get(kit) ?? worlds.set(kit, startFor(FREE[0]!)(kit)).get(kit)!;
  afterAll(closeAll);

  it.each(titled(FREE))('%s', async (_title, one) => expectSame(await playAll(one, start)));
});

describe('a call while Redis is away is the same with both kits as on Redis', () => {
  const cases = [...AWAY.map(cutOffBefore), ...HELD_AWAY];
  let played: Map<KitCase, Awaited<ReturnType<typeof playAll>>>;

  // Each waits for a second or more, so they wait side by side.
  beforeAll(async () => {
    played = new Map(await Promise.all(cases.map(async (one) => [one, await playAll(one)] as const)));
  });
  afterAll(closeAll);

  it.each(titled(cases))('%s', (_title, one) => expectSame(played.get(one)!));
});
