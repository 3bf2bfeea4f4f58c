import { type LockError, type LockHolder, type LockState } from '../../../../lib/index.js';
import { eventually } from '../../../support/waiting/eventually.js';
import { type KitCase } from './kit-calls.js';
import { ended } from './kit-told.js';
import { gate } from '../../../support/waiting/gate.js';

const holderTold = ({ owner, ...rest }: LockHolder) => ({
  ...rest,
  owner: owner.startsWith('owner') ? owner : 'an attempt',
});
const stateTold = (state: LockState) => ({ ...state, holders: state.holders.map(holderTold) });

/** Owners, nested calls and losses. */
export const HOLDS: readonly KitCase[] = [
  ['an owner enters again, with the same token', async ({ locks }) => {
    const options = { owner: 'owner-1' };
    const [first, second] = [await locks.acquire('a', options), await locks.acquire('a', options)];
    const third = await locks.acquire('a', { ...options, mode: 'read', waitMs: 0 });
    const tokens = [first, second, third].map(({ fencingToken }) => fencingToken);
    const state = stateTold(await locks.inspect('a'));
    for (const lock of [first, second, third]) await lock.release();
    return { same: new Set(tokens).size === 1, state };
  }],
  ['an owner reads again, with the same token', async ({ locks }) => {
    const options = { owner: 'owner-1', mode: 'read' } as const;
    const [first, second] = [await locks.acquire('a', options), await locks.acquire('a', options)];
    const isSame = first.fencingToken === second.fencingToken;
    for (const lock of [first, second]) await lock.release();
    return isSame;
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
  ['a nested call', ({ locks }) => locks.withLock('a', () => locks.withLock('a', () => 'ran'))],
  ['a nested call that may not enter', ({ locks }) =>
    locks.withLock('a', () => ended(locks.withLock('a', { reentrant: false }, () => 'ran')))],
  ['an acquire inside that may not enter', ({ locks }) =>
    locks.withLock('a', () => ended(locks.acquire('a', { reentrant: false, waitMs: 0 })))],
  ['a nested call that asks to write', ({ locks }) =>
    locks.withLock('a', { mode: 'read' }, () => ended(locks.withLock('a', () => 'ran')))],
  ['a nested call of several keys', ({ locks }) =>
    locks.withLock(['a', 'b'], () => locks.withLock(['b', 'a', 'c'], () => 'ran'))],
  ['nested calls side by side', ({ locks }) =>
    locks.withLock('a', () => Promise.all([0, 1].map((i) => locks.withLock('a', () => i))))],
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

/** What is told to people. */
export const STATES: readonly KitCase[] = [
  ['inspect what is free', ({ locks }) => locks.inspect('a')],
  ['inspect what is held', async ({ locks }) =>
    locks.withLock(['a', 'b'], async () => [stateTold(await locks.inspect('a')), await locks.isLocked('b')])],
  ['inspect what two read', async ({ locks }) => {
    const options = { mode: 'read' } as const;
    const [first, second] = [await locks.acquire('a', options), await locks.acquire('a', { ...options, owner: 'owner-1' })];
    const state = stateTold(await locks.inspect('a'));
    await first.release();
    const after = stateTold(await locks.inspect('a'));
    await second.release();
    return { state, after };
  }],
  ['inspect what was downgraded', async ({ locks }) => {
    const lock = await locks.acquire('a');
    await lock.downgrade();
    const state = stateTold(await locks.inspect('a'));
    await lock.release();
    return state;
  }],
  ['inspect what was released: its token is remembered', async ({ locks }) => {
    await locks.withLock('a', () => undefined);
    return stateTold(await locks.inspect('a'));
  }],
  ['inspect what stays taken after its release', async ({ locks }) => {
    const hold = { holdAtLeastMs: 60_000 };
    await locks.withLock('a', hold, () => undefined);
    return [stateTold(await locks.inspect('a')), await locks.isLocked('a')];
  }],
  ['inspect what ended with its lease', async ({ locks }) => {
    const lock = await locks.acquire('a', { leaseMs: 300, renew: false });
    // Its loss is told a little after it is no longer proven.
    await eventually(() => lock.signal.aborted);
    await eventually(async () => !(await locks.isLocked('a')));
    return stateTold(await locks.inspect('a'));
  }],
  ['inspect a wrong key', ({ locks }) => locks.inspect('')],
  ['inspect what is no key', ({ locks }) => locks.inspect(7 as never)],
  ['isLocked of a wrong key', ({ locks }) => locks.isLocked('x'.repeat(1_025))],
  ['look at several keys', async ({ locks }) => {
    const lock = await locks.acquire('b');
    const states = (await locks.inspect(['a', 'b'])).map(stateTold);
    const answers = [await locks.isLocked(['a', 'b']), await locks.isLocked(['a', 'c']), await locks.isLocked(['b', 'b'])];
    const revoked = [await locks.forceRelease(['a', 'b']), await locks.forceRelease(['a', 'b'])];
    await eventually(() => lock.signal.aborted);
    return { states, answers, revoked };
  }],
  ...[[], ['a', ''], ['a', 7], Array.from({ length: 17 }, (_, i) => `k${i}`)].flatMap((keys): KitCase[] => [
    [`inspect several keys: ${JSON.stringify(keys).slice(0, 20)}`, ({ locks }) => locks.inspect(keys as string[])],
    [`forceRelease several keys: ${JSON.stringify(keys).slice(0, 20)}`, ({ locks }) => locks.forceRelease(keys as string[])],
  ]),
  ['forceRelease what is free', ({ locks }) => locks.forceRelease('a')],
  ['forceRelease of a wrong key', ({ locks }) => locks.forceRelease('')],
  ['list', async ({ locks }) => {
    const held = [await locks.acquire(['a:1', 'a:2']), await locks.acquire('b')];
    const listed: string[] = [];
    for await (const { key } of locks.list({ prefix: 'a:' })) listed.push(key);
    for (const lock of held) await lock.release();
    for await (const { key } of locks.list()) listed.push(`after: ${key}`);
    return listed.toSorted();
  }],
  ['list with a limit', async ({ locks }) => {
    const held = await locks.acquire(['a:1', 'a:2']);
    const listed: LockState[] = [];
    for await (const state of locks.list({ limit: 1 })) listed.push(state);
    await held.release();
    return listed.length;
  }],
  ...[{ limit: 0 }, { prefix: 7 }, { prefix: 'a\uD800' }, { other: 1 }].map((options): KitCase => [
    `list with a wrong ${JSON.stringify(options)}`,
    async ({ locks }) => locks.list(options as never)[Symbol.asyncIterator]().next(),
  ]),
  ['lastRun of what never ran', ({ locks }) => locks.lastRun('slot')],
  ['lastRun of a wrong key', ({ locks }) => locks.lastRun('')],
  ['lastRun of a wrong job', ({ locks }) => locks.lastRun('slot', '')],
  ['activity', async ({ locks }) => {
    const during = await locks.withLock('a', () => locks.activity);
    return [during, locks.activity];
  }],
]; // prettier-ignore

const away =
  (use: KitCase[1]): KitCase[1] =>
  async (world) => {
    await world.locks.withLock('before', () => undefined);
    await world.cutOff();
    return use(world);
  };

/** What comes of calls while Redis is away. */
export const AWAY: readonly KitCase[] = [
  ['acquire', away(({ locks }) => Promise.all([0, 30].map((waitMs) => ended(locks.acquire('a', { waitMs })))))],
  ['tryAcquire', away(({ locks }) => locks.tryAcquire('a'))],
  ['acquire of two keys', away(({ locks }) => locks.acquire(['a', 'b'], { waitMs: 0 }))],
  ['withLock', away(({ locks }) => locks.withLock('a', { waitMs: 0 }, () => 'ran'))],
  ['an aborted signal', away(({ locks }) => locks.acquire('a', { signal: AbortSignal.abort(new Error('gone')) }))],
  ['a wrong key', away(({ locks }) => locks.acquire(''))],
  ['inspect', away(({ locks }) => locks.inspect('a'))],
  ['isLocked', away(({ locks }) => locks.isLocked('a'))],
  ['forceRelease', away(({ locks }) => locks.forceRelease('a'))],
  ['lastRun', away(({ locks }) => locks.lastRun('a'))],
  ['list', away(async ({ locks }) => locks.list()[Symbol.asyncIterator]().next())],
  ['extend and downgrade', async ({ locks, cutOff }) => {
    const lock = await locks.acquire('a', { leaseMs: 10_000, renew: false });
    await cutOff();
    return [await ended(lock.extend(10_000)), await ended(lock.downgrade()), lock.held];
  }],
  ['what is held when the lease ends', async ({ locks, cutOff }) => {
    const lock = await locks.acquire('a', { leaseMs: 6_000 });
    let failures = 0;
    locks.events.on('renewFailed', () => (failures += 1));
    await cutOff();
    await eventually(() => lock.signal.aborted, { timeoutMs: 20_000 });
    return { reason: lock.signal.reason.reason, failed: failures > 0 };
  }],
]; // prettier-ignore

/** What comes of calls when the app shuts down. */
export const CLOSED: readonly KitCase[] = [
  ['calls after it', async ({ app, locks, work }) => {
    await app.close();
    const jobs = [work.slot(), work.slotThrows(), work.slotAgain()];
    const calls = [locks.acquire('a'), locks.tryAcquire('a'), locks.withLock('a', () => 'ran'), locks.acquire(['a', 'b'])];
    return Promise.all([...calls, ...jobs, work.waits('1'), work.skips('1'), locks.acquire('')].map(ended));
  }],
  ['an aborted call after it', async ({ app, locks }) => {
    await app.close();
    return locks.acquire('a', { signal: AbortSignal.abort(new Error('gone')) });
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
  ['a call that takes too long loses its lock', async ({ app, locks, work }) => {
    const until = gate();
    work.inside = () => until.opened;
    const running = ended(work.waits('1'));
    await eventually(() => locks.activity.held === 1);
    await app.close();
    const left = locks.activity;
    until.open();
    return { left, ran: await running };
  }, { drainMs: 50 }],
  ['a handle that is left is lost', async ({ app, locks }) => {
    const lock = await locks.acquire('a');
    await app.close();
    return [await ended(Promise.resolve(lock)), await ended(lock.extend(1_000))];
  }, { drainMs: 0 }],
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
    return Promise.all(looks.map((look) => look.then(() => 'told', (error: unknown) => (error as LockError).code)));
  }],
]; // prettier-ignore
