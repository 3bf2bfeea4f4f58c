import 'reflect-metadata';
import {
  type Lock,
  assertLocked,
  currentLock,
  Locked,
  type LockLostError,
  type LockLostReason,
} from '../../../lib/index.js';
import { eventually } from '../../support/waiting/eventually.js';
import { disconnect, proxyTo } from '../../support/redis/own-redis.js';
import { type LockApp, closeAll, freshKey, startApp } from '../../support/apps/lock-app.js';
import { deleteLock, openStore } from '../support/stores.js';
import { topology } from '../../support/topologies/topology.js';
import { grantedAt } from '../../support/redis/records.js';
import { rejection } from '../../support/waiting/rejection.js';

class Work {
  @Locked('loss:<0>', { leaseMs: 6_000 })
  async renewed(_id: string, during: (lock: Lock) => Promise<string>): Promise<string> {
    return during(currentLock());
  }

  @Locked('loss:<0>', { leaseMs: 2_000 })
  async shortly(_id: string, during: (lock: Lock) => Promise<string>): Promise<string> {
    return during(currentLock());
  }

  @Locked('loss:<0>', { leaseMs: 1_500, renew: false })
  async unrenewed(_id: string, during: (lock: Lock) => Promise<string>): Promise<string> {
    return during(currentLock());
  }

  @Locked('loss:<0>', { maxHoldMs: 100 })
  async brief(_id: string, during: (lock: Lock) => Promise<string>): Promise<string> {
    return during(currentLock());
  }
}

interface Scene {
  readonly key: string;
  readonly other: LockApp;
  readonly cut: () => void;
}

type TakenAway = Exclude<LockLostReason, 'shutdown' | 'dropped'>;

/** Ways to lose the lock, by the reason that is reported. */
const CAUSES: Record<TakenAway, readonly [keyof Work, (scene: Scene) => unknown]> = {
  expired: ['unrenewed', () => undefined],
  taken: [
    'renewed',
    async ({ key, other }) => {
      await deleteLock(key);
      await other.locks.acquire(key);
    },
  ],
  unreachable: ['shortly', ({ cut }) => cut()],
  'max-hold': ['brief', () => undefined],
  revoked: ['renewed', ({ key, other }) => other.locks.forceRelease(key)],
};

const REASONS = Object.keys(CAUSES) as TakenAway[];

/** A way to the locks that can be cut, where that is one connection. */
async function startCuttable(): Promise<{ readonly app: LockApp; readonly cut: () => void }> {
  const proxy = topology.isSingle ? await proxyTo() : undefined;
  const app = await startApp(proxy ? { connection: proxy.url } : {}, { providers: [Work] });
  return { app, cut: () => disconnect(proxy!) };
}

describe('a decorated method that loses its lock', () => {
  afterEach(closeAll);

  it.each(topology.isSingle ? REASONS : REASONS.filter((reason) => reason !== 'unreachable'))(
    'rejects with LockLostError and its value although it returned (%s)',
    async (reason) => {
      const [{ app: started, cut }, other] = [await startCuttable(), await startApp()];
      const { app, locks } = started;
      const [method, cause] = CAUSES[reason];
      const id = freshKey();
      const told: LockLostReason[] = [];
      locks.events.on('lost', ({ reason }) => told.push(reason));
      let inside: unknown;
      // Until it is connected.
      await other.locks.isLocked(id);
      const call = app.get(Work)[method](id, async ({ key, signal }) => {
        await cause({ key, other, cut });
        await eventually(() => signal.aborted, { timeoutMs: 20_000, message: 'The signal did not fire' });
        inside = signal.reason;
        expect(() => assertLocked()).toThrow(signal.reason as Error);
        expect(currentLock().held).toBe(false);
        return 'the value';
      });
      const error = await rejection<LockLostError>(call);
      expect(error).toMatchObject({ code: 'LOCK_LOST', reason, result: 'the value', key: `loss:${id}`, mode: 'write' });
      expect(inside).toMatchObject({ reason, message: error.message });
      expect(told).toEqual([reason]);
    },
  );

  it('rejects with LockLostError and its value when it runs for longer than drainMs of a shutdown', async () => {
    const { app, locks } = await startApp({ drainMs: 50 }, { providers: [Work] });
    const told: LockLostReason[] = [];
    locks.events.on('lost', ({ reason }) => told.push(reason));
    let closed: Promise<void> | undefined;
    const call = app.get(Work).renewed(freshKey(), async ({ signal }) => {
      closed = app.close();
      await eventually(() => signal.aborted, { message: 'The signal did not fire' });
      return 'the value';
    });
    const error = await rejection<LockLostError>(call);
    expect(error).toMatchObject({ code: 'LOCK_LOST', reason: 'shutdown', result: 'the value' });
    expect(error.message).toContain('the app was shutting down');
    expect(told).toEqual(['shutdown']);
    await closed;
  });
});

describe('maxHoldMs', () => {
  afterEach(closeAll);

  it('frees the lock while the work continues, and notifies the work in time', async () => {
    const [a, b] = [await startApp(), await startApp()];
    const key = freshKey();
    let told = Infinity;
    const work = a.locks.withLock(key, { maxHoldMs: 300, leaseMs: 1_500 }, async ({ signal }) => {
      signal.addEventListener('abort', () => (told = Date.now()));
      const next = await b.locks.acquire(key, { waitMs: 25_000 });
      return grantedAt(next);
    });
    const error = await rejection<LockLostError>(work);
    expect(error.reason).toBe('max-hold');
    // The server runs on this machine: the clocks are one.
    expect(told).toBeLessThanOrEqual(error.result as number);
  });
});

describe('the signal', () => {
  afterEach(closeAll);

  it('fires before the lease ends by the clock of the server', async () => {
    const [{ locks }, store] = [await startApp(), openStore()];
    // Where this process stood still, its timers are late, and the round proves nothing.
    for (let round = 1; ; round += 1) {
      const lock = await locks.acquire(freshKey(), { leaseMs: 2_000, renew: false });
      const due = performance.now() + lock.remainingMs;
      const { lateMs, toldAt } = await new Promise<{ lateMs: number; toldAt: number }>((resolve) => {
        lock.signal.addEventListener('abort', () => resolve({ lateMs: performance.now() - due, toldAt: Date.now() }));
      });
      if (lateMs > 10 && round < 8) continue;
      expect(toldAt).toBeLessThan(grantedAt(lock) + 2_000);
      expect(await store.now()).toBeGreaterThanOrEqual(toldAt - 1);
      return;
    }
  });
});
