import { Locked, type LockEventName, ReadLocked } from '../../../lib/index.js';
import { eventually } from '../../support/waiting/eventually.js';
import { disconnect, proxyTo } from '../../support/redis/own-redis.js';
import { freshKey, type LockApp, startApp } from '../../support/apps/lock-app.js';
import { untilWaiting } from '../../support/waiting/waiters.js';
import { rejection } from '../../support/waiting/rejection.js';

/** Methods with a key template. */
export class Orders {
  @Locked('order:<0>')
  async charge(_id: string, until: Promise<unknown> = Promise.resolve()): Promise<unknown> {
    return until;
  }

  @ReadLocked('order:<0>')
  async read(_id: string): Promise<void> {}
}

/** Renewals are not automatic: tests count those that they request. */
const LEASE_MS = 600_000;

/** How long is waited and held on purpose, in seconds. */
export const SOME_SECONDS = 0.03;

/** Lets some time pass, by the clock that measures it. */
export async function someTime(seconds = SOME_SECONDS): Promise<void> {
  const until = performance.now() + seconds * 1_000 + 1;
  await eventually(() => performance.now() > until);
}

/** An app with `Orders`, and another instance that competes with it. */
export interface Cast extends LockApp {
  readonly orders: Orders;
  readonly other: LockApp;
  /** Disconnects Redis from the app, and connects it again. */
  readonly withoutRedis: (work: () => Promise<unknown>) => Promise<void>;
}

export async function startCast(): Promise<Cast> {
  const proxy = await proxyTo();
  const other = await startApp({ leaseMs: LEASE_MS });
  const app = await startApp({ leaseMs: LEASE_MS, connection: proxy.url }, { providers: [Orders] });
  const withoutRedis = async (work: () => Promise<unknown>): Promise<void> => {
    disconnect(proxy);
    await work();
    proxy.refuse(false);
    await eventually(() => app.locks.isLocked('any').then(() => true));
  };
  return { ...app, orders: app.app.get(Orders), other, withoutRedis };
}

/** Moments of the story at which gauges are above 0. */
export interface Moments {
  /** One `Orders.charge` waits, for `SOME_SECONDS` and more. */
  readonly whileWaiting?: () => Promise<void>;
  /** One lock of the service is held. */
  readonly whileHeld?: () => Promise<void>;
}

/** One of each thing that can happen to a lock, on a real Redis. */
export async function tellStory(cast: Cast, moments: Moments = {}): Promise<void> {
  const { orders } = cast;
  await orders.charge(freshKey());
  await orders.read(freshKey());
  await waitAndGet(cast, moments);
  await fail(cast);
  await holdAndRenew(cast, moments);
  await lose(cast);
  await beWithoutRedis(cast);
}

/** The measurements of the story: metric, template, mode, outcome, and count. */
export const STORY = {
  acquire: [
    ['order:<0>', 'write', 'acquired', 2],
    ['order:<0>', 'read', 'acquired', 1],
    ['other', 'write', 'acquired', 3],
    ['other', 'write', 'busy', 1],
    ['other', 'write', 'timeout', 1],
    ['other', 'write', 'aborted', 1],
    ['other', 'write', 'error', 1],
  ],
  hold: [
    ['order:<0>', 'write', 'released', 2],
    ['order:<0>', 'read', 'released', 1],
    ['other', 'write', 'released', 2],
    ['other', 'write', 'lost', 1],
  ],
  held: [
    ['order:<0>', 'write'],
    ['order:<0>', 'read'],
    ['other', 'write'],
  ],
  waiting: [
    ['order:<0>', 'write'],
    ['other', 'write'],
  ],
} as const;

async function waitAndGet({ orders, other, locks }: Cast, { whileWaiting }: Moments): Promise<void> {
  const id = freshKey();
  const held = await other.locks.acquire(`order:${id}`);
  const isWaiting = new Promise((resolve) => locks.events.on('waiting', resolve));
  const waiting = orders.charge(id);
  await isWaiting;
  await someTime();
  await whileWaiting?.();
  await held.release();
  await waiting;
}

async function fail({ locks, other }: Cast): Promise<void> {
  const key = freshKey();
  const held = await other.locks.acquire(key);
  await locks.tryAcquire(key);
  await rejection(locks.acquire(key, { waitMs: SOME_SECONDS * 1_000 }));
  const controller = new AbortController();
  const aborted = rejection(locks.acquire(key, { signal: controller.signal }));
  await untilWaiting(other, key);
  controller.abort();
  await aborted;
  await held.release();
}

async function holdAndRenew({ locks }: Cast, { whileHeld }: Moments): Promise<void> {
  const lock = await locks.acquire(freshKey());
  await someTime();
  await lock.extend(2 * LEASE_MS);
  await whileHeld?.();
  await lock.downgrade();
  await lock.release();
}

/** Waits for the next event of a name. */
export function once({ events }: LockApp['locks'], name: LockEventName): Promise<void> {
  return new Promise((resolve) => {
    const listener = (): void => {
      events.off(name, listener);
      resolve();
    };
    events.on(name, listener);
  });
}

/** Loses a lock to an operator. */
async function lose({ locks, other }: Cast): Promise<void> {
  const lock = await locks.acquire(freshKey());
  const { signal } = lock;
  await other.locks.forceRelease(lock.key);
  await eventually(() => signal.aborted);
  await lock.release();
}

async function beWithoutRedis({ locks, withoutRedis }: Cast): Promise<void> {
  const lock = await locks.acquire(freshKey(), { renew: false });
  await withoutRedis(async () => {
    await Promise.all([rejection(lock.extend(LEASE_MS)), rejection(locks.acquire(freshKey(), { waitMs: 0 }))]);
  });
  const released = once(locks, 'released');
  await lock.release();
  await released;
}
