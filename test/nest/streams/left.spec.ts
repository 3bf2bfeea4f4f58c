import 'reflect-metadata';
import { currentLock, Locked, LockLostError } from '../../../lib/index.js';
import { eventually } from '../../support/waiting/eventually.js';
import { gate } from '../../support/waiting/gate.js';
import { rejection } from '../../support/waiting/rejection.js';
import { startManual } from '../support/manual-app.js';
import { closeAll, freshKey } from '../../support/apps/lock-app.js';

const LEASE_MS = 30_000;

/** Streams whose next value does not come. */
class Steps {
  readonly done = gate();
  signal: AbortSignal | undefined;

  @Locked('steps:<0>', { leaseMs: LEASE_MS })
  async *never(_id: string): AsyncGenerator<number> {
    this.signal = currentLock().signal;
    yield 1;
    await new Promise(() => {});
  }

  @Locked('steps:<0>', { leaseMs: LEASE_MS })
  async neverLater(_id: string): Promise<AsyncIterator<number> & AsyncIterable<number>> {
    this.signal = currentLock().signal;
    const next = async (): Promise<IteratorResult<number>> => new Promise(() => {});
    const iterator = { next, return: async () => ({ done: true as const, value: undefined }) };
    return { ...iterator, [Symbol.asyncIterator]: () => iterator };
  }

  @Locked('steps:<0>', { leaseMs: LEASE_MS })
  async *slow(_id: string): AsyncGenerator<number> {
    yield 1;
    await this.done.opened;
    yield 2;
  }
}

async function start() {
  const { service: steps, locks, settle } = await startManual(Steps);
  const id = freshKey();
  return { steps, locks, id, settle, isLocked: () => locks.isLocked(`steps:${id}`) };
}

afterEach(closeAll);

describe('an iteration that its consumer ends while a value is pending', () => {
  it('ends with one more lease when the value never comes: the signal fires, and return() rejects', async () => {
    const { steps, id, settle, isLocked } = await start();
    const iterator = steps.never(id);
    await iterator.next();
    const calls = [rejection(iterator.next()), rejection(iterator.return(undefined))];
    expect(await isLocked()).toBe(true);
    const [lost, told] = await settle(Promise.all(calls));
    expect([lost, told]).toEqual([expect.any(LockLostError), lost]);
    expect(steps.signal?.reason).toBe(lost);
    await eventually(async () => !(await isLocked()));
    expect(await iterator.next()).toEqual({ done: true, value: undefined });
  });

  it('ends with one more lease even when return() itself has been answered', async () => {
    const { steps, id, settle, isLocked } = await start();
    const iterator = (await steps.neverLater(id))[Symbol.asyncIterator]();
    const next = rejection(iterator.next());
    const ended = rejection(iterator.return!());
    expect(await settle(Promise.all([next, ended]))).toEqual([expect.any(LockLostError), expect.any(LockLostError)]);
    await eventually(async () => !(await isLocked()));
  });

  it('leaves an outer hold alone, and ends with one more lease when only it keeps the hold', async () => {
    const { steps, locks, id, settle, isLocked } = await start();
    const outer = await locks.withLock(`steps:${id}`, { leaseMs: LEASE_MS }, async () => {
      const iterator = steps.never(id);
      await iterator.next();
      return [rejection(iterator.next()), rejection(iterator.return(undefined))];
    });
    expect(await isLocked()).toBe(true);
    const [lost, told] = await settle(Promise.all(outer));
    expect([lost, told]).toEqual([expect.any(LockLostError), lost]);
    await eventually(async () => !(await isLocked()));
  });

  it('waits for a value that comes within that time, under the lock', async () => {
    const { steps, id, isLocked } = await start();
    const iterator = steps.slow(id);
    await iterator.next();
    const calls = [iterator.next(), iterator.return(undefined)];
    expect(await isLocked()).toBe(true);
    steps.done.open();
    expect(await Promise.all(calls)).toEqual([
      { done: false, value: 2 },
      { done: true, value: undefined },
    ]);
    expect(await isLocked()).toBe(false);
  });
});
