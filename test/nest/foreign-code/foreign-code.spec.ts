import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import { Injectable, Logger } from '@nestjs/common';
import { type LockEventName, Locked, LockLostError } from '../../../lib/index.js';
import { eventually } from '../../support/waiting/eventually.js';
import { rejection } from '../../support/waiting/rejection.js';
import { closeAll, freshKey, type LockApp, startApp } from '../../support/apps/lock-app.js';

class Unreadable extends Error {
  override get message(): string {
    throw new Error('no text');
  }
}

/** What a listener may throw, and of which even the text cannot be asked. */
const UNREADABLE: readonly (readonly [string, () => unknown])[] = [
  ['an object without a prototype', () => Object.create(null) as unknown],
  ['an error whose message throws', () => new Unreadable()],
  [
    'an object whose text throws',
    () => ({
      toString() {
        throw new Error('no text');
      },
    }),
  ],
  ['a revoked proxy', revokedProxy],
  ['a symbol', () => Symbol('thrown')],
];

function revokedProxy(): unknown {
  const { proxy, revoke } = Proxy.revocable({}, {});
  revoke();
  return proxy;
}

const broken = (): never => {
  throw new Error('the logger is broken');
};
const BROKEN_LOGGER = { log: broken, warn: broken, error: broken, debug: broken, verbose: broken, fatal: broken };

/** The events of a call that is granted and released, with one nested call inside. */
const OF_A_CALL: readonly LockEventName[] = ['acquired', 'reentered', 'released'];

async function callTwice({ locks }: LockApp, key: string): Promise<string> {
  return locks.withLock(key, () => locks.withLock(key, () => 'done'));
}

async function expectNothingLeft({ locks, locker }: LockApp, key: string): Promise<void> {
  await eventually(async () => !(await locks.isLocked(key)));
  expect(locker.live).toMatchObject({ locks: 0, waiting: 0 });
}

/** Starts an app, whose logger throws from now on. */
async function startBroken(...args: Parameters<typeof startApp>): Promise<LockApp> {
  const app = await startApp(...args);
  Logger.overrideLogger(BROKEN_LOGGER);
  return app;
}

/** In a box: a promise would ask a value for its `then`. */
const reasonOf = (promise: Promise<unknown>): Promise<{ readonly reason: unknown }> =>
  promise.then(
    () => ({ reason: 'nothing' }),
    (reason: unknown) => ({ reason }),
  );

afterEach(async () => {
  Logger.overrideLogger(false);
  await closeAll();
});

describe('a listener of events', () => {
  it('is called once for each event when it is removed and added again meanwhile', async () => {
    const app = await startBroken();
    const calls = new Map<LockEventName, number>();
    for (const name of OF_A_CALL) {
      const listen = (): void => {
        const count = (calls.get(name) ?? 0) + 1;
        calls.set(name, count);
        // Long enough to count as endless, but the test must fail rather than hang.
        if (count < 100) app.locks.events.off(name, listen).on(name, listen);
      };
      app.locks.events.on(name, listen).on(name, () => undefined);
    }
    await callTwice(app, freshKey());
    expect([...calls.values()]).toEqual([1, 1, 1]);
  });

  it.each(UNREADABLE)('may throw %s beside a logger that throws, without an effect', async (_what, thrown) => {
    const app = await startBroken();
    const key = freshKey();
    const seen: string[] = [];
    for (const name of OF_A_CALL) {
      app.locks.events
        .on(name, () => {
          throw thrown();
        })
        .on(name, () => Promise.reject(thrown() as Error))
        .on(name, () => seen.push(name));
    }
    expect(await callTwice(app, key)).toBe('done');
    await eventually(() => seen.length === OF_A_CALL.length);
    await expectNothingLeft(app, key);
  });
});

describe('a subscriber of a diagnostics channel', () => {
  it('may unsubscribe during an event and subscribe again, without an effect', async () => {
    const app = await startBroken();
    const key = freshKey();
    let calls = 0;
    const channel = 'nestjs-redis-lock:acquired';
    const listen = (): void => {
      unsubscribe(channel, listen);
      if ((calls += 1) < 100) subscribe(channel, listen);
    };
    subscribe(channel, listen);
    try {
      expect(await callTwice(app, key)).toBe('done');
    } finally {
      unsubscribe(channel, listen);
    }
    expect(calls).toBe(1);
    await expectNothingLeft(app, key);
  });
});

describe('a logger that throws', () => {
  it('does not keep anybody from learning of a loss', async () => {
    const app = await startBroken();
    const { locks } = app;
    const key = freshKey();
    const lost: string[] = [];
    locks.events.on('lost', (event) => lost.push(event.reason));
    const work = async (): Promise<void> => {
      await locks.withLock(key, async (lock) => {
        await locks.forceRelease(key);
        await eventually(() => lock.signal.aborted);
      });
    };
    expect(await rejection(work())).toBeInstanceOf(LockLostError);
    expect(lost).toHaveLength(1);
    await expectNothingLeft(app, key);
  });

  it('does not keep a call from running unlocked where its options allow that', async () => {
    @Injectable()
    class Service {
      @Locked('foreign:<0>', { onUnavailable: 'run-unlocked', waitMs: 0 })
      async run(id: string): Promise<string> {
        return id;
      }
    }
    const connection = { host: '127.0.0.1', port: 1, lazyConnect: true };
    const { app } = await startBroken({ connection }, { providers: [Service] });
    expect(await app.get(Service).run('7')).toBe('7');
  });
});

describe('the reason of a signal that ends a wait', () => {
  it.each(UNREADABLE)('may be %s, and the call rejects with it', async (_what, thrown) => {
    const app = await startBroken();
    const { locks } = app;
    const key = freshKey();
    const failed: unknown[] = [];
    locks.events.on('acquireFailed', (event) => failed.push(event.reason));
    const held = await locks.acquire(key);
    const abort = new AbortController();
    const waiting = reasonOf(locks.withLock(key, { signal: abort.signal }, () => undefined));
    await eventually(() => app.locker.live.waiting === 1);
    const reason = thrown();
    abort.abort(reason);
    expect((await waiting).reason === reason).toBe(true);
    const again = await reasonOf(locks.tryAcquire(key, { signal: abort.signal }));
    expect(again.reason === reason).toBe(true);
    expect(failed).toEqual(['aborted', 'aborted']);
    await held.release();
    await expectNothingLeft(app, key);
  });
});
