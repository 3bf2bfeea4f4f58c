import 'reflect-metadata';
import { Injectable } from '@nestjs/common';
import {
  Limited,
  LockBusyError,
  LockConfigurationError,
  type LockOptions,
  LockReentryError,
  LockShutdownError,
  LockWaitTimeoutError,
  ReadLocked,
} from '../../../lib/index.js';
import { type LockApp, closeAll, freshKey, startApp } from '../../support/apps/lock-app.js';
import { itWithoutPermits, itWithPermits } from '../../support/topologies/topology.js';
import { eventually } from '../../support/waiting/eventually.js';
import { gate } from '../../support/waiting/gate.js';
import { rejection } from '../../support/waiting/rejection.js';
import { untilWaiting } from '../../support/waiting/waiters.js';

const LIMIT = { mode: 'read', permits: 3, perInstance: 2, waitMs: 25_000 } as const satisfies LockOptions;

interface Tenant {
  readonly id: string;
  readonly share?: unknown;
}

@Injectable()
class Imports {
  readonly share = 1;

  @Limited('tenant:<0.id>', 3, { perInstance: 2, waitMs: 25_000 })
  async run(_tenant: Tenant, until: Promise<void> = Promise.resolve()): Promise<string> {
    await until;
    return 'ran';
  }

  @Limited('tenant:<0.id>', () => 3, { perInstance: ({ share }: Tenant) => share as number, ifBusy: 'throw' })
  async ofArgument(_tenant: Tenant, until: Promise<void> = Promise.resolve()): Promise<string> {
    await until;
    return 'ran';
  }

  @ReadLocked('tenant:<0.id>', {
    permits: 3,
    perInstance(this: Imports) {
      return this.share;
    },
    ifBusy: () => 'busy',
  })
  async ofInstance(_tenant: Tenant, until: Promise<void> = Promise.resolve()): Promise<string> {
    await until;
    return 'ran';
  }
}

const start = () => startApp({}, { providers: [Imports] });
const holders = async ({ locks }: LockApp, key: string) => (await locks.inspect(key)).holders.length;
const untilHolders = (app: LockApp, key: string, count: number) =>
  eventually(async () => (await holders(app, key)) === count);

afterEach(closeAll);

describe('perInstance', () => {
  itWithPermits(
    'admits that number of calls of each instance, and no more than the permits of the lock in all of them',
    async () => {
      const [a, b, key] = [await startApp(), await startApp(), freshKey()];
      const ofA = [1, 2, 3].map(() => a.locks.acquire(key, LIMIT));
      await Promise.all(ofA.slice(0, 2));
      // The third one waits in its process: one permit is left for the others.
      expect([(await a.locks.inspect(key)).waiters, (await b.locks.inspect(key)).waiters]).toEqual([1, 0]);
      const [ofB, more] = [await b.locks.acquire(key, LIMIT), b.locks.acquire(key, LIMIT)];
      await untilWaiting(b, key, 1);
      expect([await holders(a, key), await b.locks.tryAcquire(key, LIMIT)]).toEqual([3, null]);
      await (await ofA[0]!).release();
      // Which of the two is first, is not said.
      const served = await Promise.race([ofA[2]!, more]);
      await served.release();
      for (const lock of [ofB, await ofA[1]!]) await lock.release();
      for (const lock of await Promise.all([ofA[2]!, more]))
        if (lock !== served) expect(await lock.release()).toBe(true);
      expect((await a.locks.inspect(key)).holders).toEqual([]);
    },
  );

  itWithPermits('reports which limit was reached', async () => {
    const [a, b, key] = [await startApp(), await startApp(), freshKey()];
    const held = [await a.locks.acquire(key, LIMIT), await a.locks.acquire(key, LIMIT)];
    const busy = await rejection(a.locks.acquire(key, { ...LIMIT, waitMs: 0 }));
    expect(busy).toBeInstanceOf(LockBusyError);
    expect(busy).toMatchObject({ key, perInstance: 2, permits: undefined });
    expect(busy.message).toContain('this instance has all permits that it may have (`perInstance: 2`)');
    const late = await rejection(a.locks.acquire(key, { ...LIMIT, waitMs: 20 }));
    expect(late).toBeInstanceOf(LockWaitTimeoutError);
    expect(late).toMatchObject({ perInstance: 2, permits: undefined });
    const last = await b.locks.acquire(key, LIMIT);
    const full = await rejection(b.locks.acquire(key, { ...LIMIT, waitMs: 0 }));
    expect(full).toMatchObject({ perInstance: undefined, permits: 3 });
    for (const lock of [...held, last]) await lock.release();
  });

  itWithPermits('lets the next call in when a lock is revoked or transferred', async () => {
    const [a, b, key] = [await startApp(), await startApp(), freshKey()];
    const options: LockOptions = { ...LIMIT, permits: 20, perInstance: 1 };
    const first = await a.locks.acquire(key, options);
    const second = a.locks.acquire(key, options);
    await untilWaiting(a, key, 1);
    const text = await first.transfer();
    const adopted = await b.locks.adopt(text);
    const held = await second;
    // An adopted lock does not count as a call of the adopting process.
    const ofB = await b.locks.acquire(key, options);
    expect(await holders(a, key)).toBe(3);
    const third = a.locks.acquire(key, options);
    await untilWaiting(a, key, 1);
    await b.locks.forceRelease(key);
    expect((await third).held).toBe(true);
    await eventually(() => [held, adopted, ofB].every((lock) => !lock.held));
  });

  itWithPermits('ends the wait of a call whose module closes', async () => {
    const [{ app, locks }, key] = [await startApp({ drainMs: 0 }), freshKey()];
    const held = [await locks.acquire(key, LIMIT), await locks.acquire(key, LIMIT)];
    const waiting = rejection(locks.acquire(key, LIMIT));
    await untilWaiting({ locks }, key, 1);
    await app.close();
    expect(await waiting).toBeInstanceOf(LockShutdownError);
    expect(held.map((lock) => lock.held)).toEqual([false, false]);
  });

  itWithoutPermits('is refused as `permits` are', async () => {
    const { locks } = await startApp();
    const error = await rejection(locks.acquire(freshKey(), LIMIT));
    expect(error).toBeInstanceOf(LockConfigurationError);
    expect(error.message).toContain('`permits` (a counting semaphore)');
  });

  it('goes with `permits`, and with one key', async () => {
    const { locks } = await startApp();
    const error = await rejection(locks.acquire(freshKey(), { mode: 'read', perInstance: 2 }));
    expect(error).toBeInstanceOf(LockConfigurationError);
    expect(error.message).toBe('Expected `perInstance` to be left out, or used with `permits`, got `2` (number).');
  });

  itWithPermits('refuses several keys before anything is sent', async () => {
    const [{ locks }, key] = [await startApp(), freshKey()];
    const error = await rejection(locks.acquire([`${key}:a`, `${key}:b`], LIMIT));
    expect(error).toBeInstanceOf(LockConfigurationError);
    expect(error.message).toContain('`perInstance` needs one key, got 2');
    expect((await locks.inspect(`${key}:a`)).fencingToken).toBe(0);
  });
});

describe('perInstance of a method', () => {
  itWithPermits('may be a function of the arguments, whose result is checked', async () => {
    const [{ app, locks }, id, until] = [await start(), freshKey(), gate()];
    const imports = app.get(Imports);
    const running = imports.ofArgument({ id, share: 1 }, until.opened);
    await untilHolders({ locks } as LockApp, `tenant:${id}`, 1);
    expect(await rejection(imports.ofArgument({ id, share: 1 }))).toMatchObject({ perInstance: 1 });
    expect(await imports.ofArgument({ id, share: 2 })).toBe('ran');
    expect(await imports.ofInstance({ id })).toBe('busy');
    until.open();
    expect(await running).toBe('ran');
    expect(await imports.ofInstance({ id })).toBe('ran');
    for (const share of [0, 1.5, '2', undefined]) {
      const error = await rejection(imports.ofArgument({ id, share }));
      expect(error).toBeInstanceOf(LockConfigurationError);
      expect(error.message).toMatch(
        /^Imports\.ofArgument: Expected `perInstance` to be a whole number from 1 to 100000/,
      );
    }
  });
});

describe('a call inside of a permit', () => {
  itWithPermits('does not count again', async () => {
    const [{ locks }, key] = [await startApp(), freshKey()];
    const options: LockOptions = { ...LIMIT, perInstance: 1 };
    expect(await locks.withLock(key, options, () => locks.withLock(key, options, ({ held }) => held))).toBe(true);
    const other = { ...options, permits: 2 };
    expect(await rejection(locks.withLock(key, options, () => locks.withLock(key, other, () => 'ran')))).toBeInstanceOf(
      LockReentryError,
    );
  });
});
