import { type LockError } from '../../../../lib/index.js';
import { eventually } from '../../../support/waiting/eventually.js';
import { gate } from '../../../support/waiting/gate.js';
import { type KitCase } from './kit-calls.js';
import { ended } from './kit-told.js';

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
