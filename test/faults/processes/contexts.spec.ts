import 'reflect-metadata';
import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import { NEVER, Observable } from 'rxjs';
import { type LockEventName, Locked } from '../../../lib/index.js';
import { eventually } from '../../support/waiting/eventually.js';
import { ownRedis } from '../../support/redis/own-redis.js';
import { type LockApp, closeAll, startApp } from '../../support/apps/lock-app.js';
import { gate } from '../../support/waiting/gate.js';
import { rejection } from '../../support/waiting/rejection.js';

/** A lease that runs out soon. */
const SHORT = { leaseMs: 600, renew: false };

/** What a stranger does to hear of its own lock, or of all; gives what ends that. */
type Hears = (app: LockApp, hear: () => void) => Promise<unknown>;

const onEvent =
  (name: LockEventName, key: string, begin: (app: LockApp) => Promise<unknown>): Hears =>
  async (app, hear) => {
    app.locks.events.on(name, (event) => event.key === key && hear());
    await begin(app);
  };

const onChannel: Hears = async ({ locks }, hear) => {
  const listener = (event: unknown): void => {
    if ((event as { key: string }).key !== 'short') return;
    unsubscribe('nestjs-redis-lock:lost', listener);
    hear();
  };
  subscribe('nestjs-redis-lock:lost', listener);
  await locks.acquire('short', SHORT);
};

/** Methods of a stranger, which are called from where nothing is held. */
class Stranger {
  @Locked('short', SHORT)
  stream(): Observable<never> {
    return NEVER;
  }

  @Locked('revoked', { leaseMs: 1_500 })
  async *iterate(): AsyncGenerator {
    yield await new Promise(() => undefined);
  }
}

const HEARS: Record<string, Hears> = {
  'an abort listener of a lock': async ({ locks }, hear) => {
    const lock = await locks.acquire('short', SHORT);
    lock.signal.addEventListener('abort', hear);
  },
  'an abort listener of a lock that is revoked': async ({ locks }, hear) => {
    const lock = await locks.acquire('revoked');
    lock.signal.addEventListener('abort', hear);
    await locks.forceRelease('revoked');
  },
  'a listener of `lost`': onEvent('lost', 'short', ({ locks }) => locks.acquire('short', SHORT)),
  'a listener of `renewed`': onEvent('renewed', 'kept', ({ locks }) => locks.acquire('kept', { leaseMs: 3_000 })),
  'a listener of `timedOut`': onEvent('timedOut', 'busy', async ({ locks }) => {
    await locks.acquire('busy');
    void rejection(locks.acquire('busy', { waitMs: 400 }));
  }),
  'a subscriber of the channel of `lost`': onChannel,
  'a subscriber of a locked stream': async ({ app }, hear) => {
    app.get(Stranger).stream().subscribe({ error: hear });
  },
  'who iterates a locked generator': async ({ app, locks }, hear) => {
    void app.get(Stranger).iterate().next().catch(hear);
    await eventually(() => locks.isLocked('revoked'));
    await locks.forceRelease('revoked');
  },
  'a caller whose wait was over': async ({ locks }, hear) => {
    await locks.acquire('busy');
    void locks.acquire('busy', { waitMs: 400 }).catch(hear);
  },
};

describe('a call from an unrelated context while `audit` is held', () => {
  afterEach(closeAll);

  /** Holds `audit`, and keeps the module's timer busy from inside it. Returns the outcome of the unrelated call. */
  async function meet(hears: Hears): Promise<unknown> {
    const app = await startApp({ connection: (await ownRedis()).url }, { providers: [Stranger] });
    const { locks } = app;
    const [held, over] = [gate(), gate()];
    let outcome: unknown;
    const stranger = (): void => {
      outcome ??= locks
        .withLock('audit', { waitMs: 0 }, () => 'is inside')
        .catch((error: { code: string }) => error.code);
    };
    const audit = locks.withLock('audit', async () => {
      const inner = await locks.acquire('inner', { leaseMs: 300 });
      held.open();
      await over.opened;
      await inner.release();
    });
    await held.opened;
    try {
      await hears(app, stranger);
      return await eventually(() => outcome, { message: 'Nothing was heard' });
    } finally {
      over.open();
      await audit;
    }
  }

  it.each(Object.entries(HEARS))('is not nested in that hold (%s)', async (_who, hears) => {
    expect(await meet(hears)).toBe('LOCK_BUSY');
  });
});
