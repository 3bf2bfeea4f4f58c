import 'reflect-metadata';
import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import { AsyncResource } from 'node:async_hooks';
import { once } from 'node:events';
import { Agent, createServer, request, type Server } from 'node:http';
import { type AddressInfo } from 'node:net';
import { Injectable, Logger } from '@nestjs/common';
import DataLoader from 'dataloader';
import pLimit from 'p-limit';
import {
  Locked,
  type LockEventName,
  LockLostError,
  LockReentryError,
  type RedisLockService,
} from '../../../lib/index.js';
import { eventually } from '../../support/waiting/eventually.js';
import { rejection } from '../../support/waiting/rejection.js';
import { closeAll, closeLater, freshKey, type LockApp, startApp } from '../../support/apps/lock-app.js';
import { gate } from '../../support/waiting/gate.js';

afterEach(closeAll);

class Unreadable extends Error {
  override get message(): string {
    throw new Error('no text');
  }
}

/** Values that a listener may throw, whose text cannot be read. */
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

  it.each(UNREADABLE)('may throw %s, with a logger that throws, without an effect', async (_what, thrown) => {
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
  it('does not prevent the report of a loss', async () => {
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

  it('does not prevent an unlocked run where the options of the call allow it', async () => {
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

type Bind = <F extends (...args: any[]) => unknown>(task: F) => F;

const bound: Bind = (task) => AsyncResource.bind(task);
const unbound: Bind = (task) => task;

@Injectable()
class Stock {
  isCounting = false;

  /** Whether it runs concurrently with the work of the holder. */
  @Locked('stock:<0>')
  async isBeside(_id: string): Promise<boolean> {
    return this.isCounting;
  }

  @Locked('stock:<0>', { reentrant: false })
  async isBesideStrictly(_id: string): Promise<boolean> {
    return this.isCounting;
  }
}

interface Held {
  readonly stock: Stock;
  readonly id: string;
  readonly locks: RedisLockService;
}

/** Holds the lock of a stock, and counts it: first `begin`, then, when that is through, until `until` is open. */
async function count({ stock, id, locks }: Held, begin: () => Promise<unknown>, until: Promise<void>): Promise<void> {
  await locks.withLock(`stock:${id}`, async () => {
    stock.isCounting = true;
    await begin();
    await until;
    stock.isCounting = false;
  });
}

async function start(): Promise<Held> {
  const { app, locks } = await startApp({}, { providers: [Stock] });
  return { stock: app.get(Stock), locks, id: freshKey() };
}

/** A typical connection pool: the code that returns a connection runs the callback of the next waiter. */
class Pool {
  readonly #waiting: (() => void)[] = [];
  #isFree = true;

  acquire(callback: () => void): void {
    if (!this.#isFree) return void this.#waiting.push(callback);
    this.#isFree = false;
    callback();
  }

  release(): void {
    const next = this.#waiting.shift();
    this.#isFree = next === undefined;
    next?.();
  }
}

type Ask = (stock: Stock, id: string) => Promise<boolean>;
const ask: Ask = (stock, id) => stock.isBeside(id);

/** Each returns what a task saw that was queued outside the lock, but that a library runs inside it. */
const LIBRARIES: Readonly<Record<string, (held: Held, bind: Bind, task: Ask) => Promise<boolean>>> = {
  'p-limit 3': async (held, bind, task) => {
    const [limit, ended, began, room] = [pLimit(1), gate(), gate(), gate()];
    const slot = async (): Promise<void> => {
      began.open();
      await room.opened;
    };
    const counting = count(held, () => limit(slot), ended.opened);
    await began.opened;
    const seen = limit(bind(() => task(held.stock, held.id)));
    room.open();
    return whileCounting(held, seen, { counting, end: () => ended.open() });
  },
  'a DataLoader': async (held, bind, task) => {
    const batch = async (ids: readonly string[]) => Promise.all(ids.map(() => task(held.stock, held.id)));
    const [loader, ended, loads] = [new DataLoader(bind(batch)), gate(), gate()];
    const load = async (): Promise<void> => {
      void loader.load('of the holder').catch(() => undefined);
      loads.open();
    };
    const counting = count(held, load, ended.opened);
    await loads.opened;
    const seen = loader.load('of another call');
    return whileCounting(held, seen, { counting, end: () => ended.open() });
  },
  'a connection pool': async (held, bind, task) => {
    const [pool, ended] = [new Pool(), gate()];
    pool.acquire(() => undefined);
    const seen = new Promise<boolean>((resolve, reject) => {
      pool.acquire(bind(() => void task(held.stock, held.id).then(resolve, reject)));
    });
    const counting = count(held, async () => pool.release(), ended.opened);
    return whileCounting(held, seen, { counting, end: () => ended.open() });
  },
};

/** Counts until the task has ended or waits for its turn. */
async function whileCounting<T>(
  { locks, stock }: Held,
  seen: Promise<T>,
  { counting, end }: { readonly counting: Promise<void>; readonly end: () => void },
): Promise<T> {
  let isThrough = false;
  const through = (): void => void (isThrough = true);
  seen.then(through, through);
  await eventually(() => stock.isCounting);
  await eventually(() => isThrough || locks.activity.waiting > 0);
  end();
  await counting;
  return seen;
}

describe.each(Object.entries(LIBRARIES))('a task that %s runs in the context of another call', (_name, queue) => {
  it('runs concurrently with the work of that call, whose lock it enters', async () => {
    expect(await queue(await start(), unbound, ask)).toBe(true);
  });

  it('waits for its turn when it is bound to its own context', async () => {
    expect(await queue(await start(), bound, ask)).toBe(false);
  });

  it('is refused with `reentrant: false`', async () => {
    const seen = queue(await start(), unbound, (stock, id) => stock.isBesideStrictly(id));
    expect(await rejection(seen)).toBeInstanceOf(LockReentryError);
  });
});

describe('a server that listens inside a lock', () => {
  const AGAIN = freshKey('server');

  it('handles each request of a connection outside that lock, and its own locks work', async () => {
    const { locks } = await startApp();
    const key = freshKey();
    const agent = new Agent({ keepAlive: true, maxSockets: 1 });
    const server = createServer((_request, response) => {
      void locks
        .withLock(AGAIN, () => locks.withLock(AGAIN, () => locks.withLock(key, { waitMs: 0 }, () => 'entered')))
        .catch((error: Error) => error.name)
        .then((text) => response.end(text));
    });
    closeLater({ close: async () => void server.close() });
    const ask = (): Promise<string> => askServer(server, agent);
    await locks.withLock(key, async () => {
      server.listen(0, '127.0.0.1');
      await once(server, 'listening');
      expect([await ask(), await ask()]).toEqual(['LockBusyError', 'LockBusyError']);
    });
    expect(await ask()).toBe('entered');
    agent.destroy();
  });
});

/** The answer of a server, over a connection that the agent keeps. */
function askServer(server: Server, agent: Agent): Promise<string> {
  const { port } = server.address() as AddressInfo;
  return new Promise((resolve, reject) => {
    const asked = request({ port, host: '127.0.0.1', agent }, (response) => {
      let text = '';
      response.on('data', (chunk: Buffer) => (text += chunk.toString()));
      response.on('end', () => resolve(text));
    });
    asked.on('error', reject);
    asked.end();
  });
}
