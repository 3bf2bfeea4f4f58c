import { type Key, type Lock, type LockOptions } from '../../../../lib/index.js';
import { type KitOptions, type World } from './kits.js';
import { ended } from './kit-told.js';

/** What is done in a world, and what comes of it. */
export type KitCase = readonly [title: string, run: (world: World) => unknown, options?: KitOptions];

const seventeen = Array.from({ length: 17 }, (_, i) => `k${i}`);

const acquiring =
  (key: unknown, options?: unknown): KitCase[1] =>
  async ({ locks }) => {
    const lock = await locks.acquire(key as Key, options as LockOptions);
    const seen = await ended(Promise.resolve(lock));
    await lock.release();
    return seen;
  };

const KEYS: [string, unknown][] = [
  ['one key', 'a'],
  ['two keys', ['b', 'a']],
  ['a key twice', ['a', 'a', 'b']],
  ['sixteen keys', seventeen.slice(1)],
  ['sixteen keys, one of them twice', [...seventeen.slice(1), 'k1']],
  ['seventeen keys', seventeen],
  ['no key', []],
  ['an empty key', ''],
  ['an empty key among others', ['a', '']],
  ['a key of 1,024 bytes', 'x'.repeat(1_024)],
  ['a key of 1,025 bytes', 'x'.repeat(1_025)],
  ['a key that is longer when it is encoded', '{'.repeat(400)],
  ['half of a surrogate pair', 'a\uD800'],
  ['a number', 7],
  ['undefined', undefined],
  ['a number among others', ['a', 7]],
];

const OPTIONS: LockOptions[] = [
  { mode: 'read' },
  { mode: 'read', permits: 3 },
  { mode: 'read', permits: 3, perInstance: 2 },
  { leaseMs: 5_000 },
  { waitMs: 0 },
  { waitMs: Infinity },
  { maxHoldMs: 60_000 },
  { holdAtLeastMs: 200 },
  { renew: false },
  { fair: false },
  { owner: 'owner-1' },
  { reentrant: false },
  { awaitRelease: false },
  { signal: new AbortController().signal },
];

const BAD_OPTIONS: [string, unknown][] = Object.entries({
  'mode': 'both', 'leaseMs': 49, 'waitMs': -1, 'maxHoldMs': 0, 'holdAtLeastMs': 0.5, 'renew': 1, 'permits': 2, 'perInstance': 2, 'fair': 'no', 'owner': '', 'reentrant': 1,
  'awaitRelease': 1, 'signal': {}, 'lease': 5,
}); // prettier-ignore

/** What the service is asked for when the lock is free. Leaves nothing held. */
export const FREE: readonly KitCase[] = [
  ...KEYS.map(([name, key]): KitCase => [`acquire(${name})`, acquiring(key)]),
  ...OPTIONS.map((options): KitCase => [
    `acquire with ${Object.keys(options).join(' and ')} (${Object.values(options).join()})`,
    // Its key stays taken.
    acquiring(options.holdAtLeastMs === undefined ? 'a' : 'kept', options),
  ]),
  ...BAD_OPTIONS.map(([name, value]): KitCase => [`acquire with a wrong ${name}`, acquiring('a', { [name]: value })]),
  ['acquire with options that are null', acquiring('a', null)],
  ['withLock of seventeen keys', ({ locks }) => locks.withLock(seventeen, () => 'ran')],
  ['tryAcquire of seventeen keys', ({ locks }) => locks.tryAcquire(seventeen)],
  ['withLock', ({ locks }) => locks.withLock('a', (lock) => ended(Promise.resolve(lock)))],
  ['withLock whose work throws', ({ locks }) => locks.withLock('a', () => Promise.reject(new Error('work')))],
  ['withLock without work', ({ locks }) => locks.withLock('a', 'work' as never)],
  ['a signal that was aborted before', acquiring('a', { signal: AbortSignal.abort(new Error('gone')) })],
];

const PERMIT = { mode: 'read', permits: 1 } as const;

const failing =
  (options: LockOptions, key: Key = 'a', occupied?: LockOptions): KitCase[1] =>
  async ({ locks, occupy }) => {
    await occupy('a', occupied);
    return locks.acquire(key, options);
  };

/** What comes of a lock that somebody else holds. */
export const BUSY: readonly KitCase[] = [
  ['acquire without waiting', failing({ waitMs: 0 })],
  ['acquire that waits', failing({ waitMs: 30 })],
  ['acquire for reading that waits', failing({ waitMs: 30, mode: 'read' })],
  ['acquire of a permit that waits', failing({ waitMs: 30, ...PERMIT }, 'a', PERMIT)],
  ['acquire of a permit without waiting', failing({ waitMs: 0, ...PERMIT }, 'a', PERMIT)],
  ['acquire that waits and is not fair', failing({ waitMs: 30, fair: false })],
  ['acquire that waits for an owner', failing({ waitMs: 30, owner: 'owner-1' })],
  ['acquire of two keys without waiting', failing({ waitMs: 0 }, ['a', 'b'])],
  ['acquire of two keys that waits', failing({ waitMs: 30 }, ['b', 'a'])],
  ['acquire of a key that is busy, of seventeen', failing({ waitMs: 0 }, ['a', ...seventeen])],
  ['acquire by the default of the module', failing({}), { waitMs: 30 }],
  ['acquire with a signal that was aborted before', failing({ signal: AbortSignal.abort(new Error('gone')) })],
  [
    'acquire that waits for ever, and is aborted',
    async ({ locks, occupy }) => {
      await occupy('a');
      const stop = new AbortController();
      locks.events.on('waiting', () => stop.abort(new Error('gone')));
      return locks.acquire('a', { waitMs: Infinity, signal: stop.signal });
    },
  ],
  [
    'acquire that waits for ever, and is granted',
    async ({ locks, occupy, vacate }) => {
      await occupy('a');
      const waits = new Promise<void>((resolve) => void locks.events.on('waiting', () => resolve()));
      const acquired = locks.acquire('a', { waitMs: Infinity });
      await waits;
      await vacate();
      const lock = await acquired;
      await lock.release();
      return lock.key;
    },
  ],
  [
    'tryAcquire',
    async ({ locks, occupy }) => {
      await occupy('a');
      return locks.tryAcquire('a');
    },
  ],
  [
    'withLock',
    async ({ locks, occupy }) => {
      await occupy('a');
      const calls = [];
      for (const waitMs of [0, 30]) calls.push(await ended(locks.withLock('a', { waitMs }, () => 'ran')));
      return calls;
    },
  ],
  [
    'a nested call that needs one more key',
    async ({ locks, occupy }) => {
      await occupy('a');
      return locks.withLock('b', () => ended(locks.withLock(['a', 'b'], { waitMs: 30 }, () => 'ran')));
    },
  ],
];

const holding =
  (use: (lock: Lock, world: World) => unknown, options?: LockOptions): KitCase[1] =>
  async (world) => {
    const lock = await world.locks.acquire('a', options);
    const used = await ended((async () => use(lock, world))());
    await lock.release();
    return { used, after: await ended(Promise.resolve(lock)) };
  };

/** What a handle does. */
export const HANDLES: readonly KitCase[] = [
  ['release twice', holding((lock) => lock.release())],
  ['release tells whether it was held', async ({ locks }) => {
    const lock = await locks.acquire('a');
    return [await lock.release(), await lock.release()];
  }],
  ['release of what an operator took away', async ({ locks }) => {
    const lock = await locks.acquire('a');
    await locks.forceRelease('a');
    return lock.release();
  }],
  ['extend', holding((lock) => lock.extend(60_000))],
  ['extend by too little', holding((lock) => lock.extend(0))],
  ['extend after the release', async ({ locks }) => {
    const lock = await locks.acquire('a');
    await lock.release();
    return lock.extend(1_000);
  }],
  ['downgrade', holding((lock) => lock.downgrade())],
  ['downgrade of a read lock', holding((lock) => lock.downgrade(), { mode: 'read' })],
  ['downgrade after the release', async ({ locks }) => {
    const lock = await locks.acquire('a');
    await lock.release();
    return lock.downgrade();
  }],
  ['await using', async ({ locks }) => {
    await using lock = await locks.acquire('a');
    return lock.held;
  }],
  ['the token of a key rises', async ({ locks }) => {
    const tokens: number[] = [];
    for (let i = 0; i < 3; i += 1) tokens.push(await locks.withLock('a', ({ fencingToken }) => fencingToken));
    return tokens.map((token, i) => token > (tokens[i - 1] ?? 2 ** 40));
  }],
]; // prettier-ignore
