import { setTimeout as sleep } from 'node:timers/promises';
import { Injectable } from '@nestjs/common';
import { Limited, LockConfigurationError, LockReentryError, Locked, currentLock } from '../../../lib/index.js';
import { eventually } from '../../support/waiting/eventually.js';
import { closeAll, freshKey, startApp } from '../../support/apps/lock-app.js';
import { ownPlace } from '../support/stores.js';
import { itWithPermits, itWithoutPermits } from '../../support/topologies/topology.js';
import { rejection } from '../../support/waiting/rejection.js';

const PATIENT = { waitMs: 25_000 };
const permit = (permits: number) => ({ mode: 'read', permits, ...PATIENT }) as const;

let inside = 0;
let most = 0;

@Injectable()
class Imports {
  @Limited('tenant:<0>', 2, { waitMs: 25_000 })
  async run(_tenant: string): Promise<number> {
    inside += 1;
    most = Math.max(most, inside);
    await sleep(3);
    inside -= 1;
    return currentLock().fencingToken;
  }

  @Limited('single:<0>', 1)
  async outer(id: string): Promise<number[]> {
    return [currentLock().fencingToken, await this.inner(id)];
  }

  @Limited('single:<0>', 1, { waitMs: 0 })
  async inner(_id: string): Promise<number> {
    return currentLock().fencingToken;
  }

  @Locked('tenant:<0>', { waitMs: 25_000 })
  async alone(_tenant: string): Promise<number> {
    return inside;
  }
}

afterEach(closeAll);

describe('permits', () => {
  itWithPermits('admit exactly that many holders at once, over all instances', async () => {
    const start = () => startApp({}, { providers: [Imports] });
    const apps = [await start(), await start(), await start()];
    const [tenant, other] = [freshKey(), freshKey()];
    [inside, most] = [0, 0];
    const services = apps.map(({ app }) => app.get(Imports));
    const calls = Array.from({ length: 60 }, (_, i) => services[i % 3]!.run(tenant));
    const writers = services.map((service) => service.alone(tenant));
    const tokens = await Promise.all(calls);
    expect(await Promise.all(writers)).toEqual([0, 0, 0]);
    expect(most).toBe(2);
    expect(new Set(tokens).size).toBe(60);
    const taken = [await apps[0]!.locks.acquire(other, permit(2)), await apps[1]!.locks.acquire(other, permit(2))];
    expect(await apps[2]!.locks.tryAcquire(other, { mode: 'read', permits: 2 })).toBeNull();
    await taken[0]!.release();
    expect(await apps[2]!.locks.tryAcquire(other, { mode: 'read', permits: 2 })).not.toBeNull();
  });

  itWithPermits('are not taken twice by a nested call', async () => {
    const { app, locks } = await startApp({}, { providers: [Imports] });
    const id = freshKey();
    const [outer, inner] = await app.get(Imports).outer(id);
    expect(inner).toBe(outer);
    const key = freshKey();
    await locks.withLock(key, permit(1), async () => {
      await locks.withLock(key, { ...permit(1), waitMs: 0 }, async () => {
        expect((await locks.inspect(key)).holders).toHaveLength(1);
      });
    });
    expect(await locks.isLocked(key)).toBe(false);
  });
});

describe('nested calls of a semaphore', () => {
  /** Runs `count` calls at once, and returns how many of them were inside together. */
  async function together(count: number, call: (work: () => Promise<void>) => Promise<unknown>): Promise<number> {
    let [now, peak] = [0, 0];
    const work = async (): Promise<void> => {
      now += 1;
      peak = Math.max(peak, now);
      await sleep(1);
      now -= 1;
    };
    await Promise.all(Array.from({ length: count }, () => call(work)));
    return peak;
  }

  itWithPermits('run one after the other under one permit, so that the limit holds', async () => {
    const start = () => startApp({}, { providers: [Imports] });
    const [a, b] = [await start(), await start()];
    const tenant = freshKey();
    const key = `tenant:${tenant}`;
    [inside, most] = [0, 0];
    await a.locks.withLock(key, permit(2), async () => {
      // The other permit is always taken, by one call of another instance after the other.
      const over = new AbortController();
      const other = (async () => {
        while (!over.signal.aborted) await b.app.get(Imports).run(tenant);
      })();
      // One of them begins inside while the other instance is.
      await eventually(() => inside > 0);
      const tokens = await Promise.all(Array.from({ length: 20 }, () => a.app.get(Imports).run(tenant)));
      over.abort();
      await other;
      expect(new Set(tokens).size).toBe(1);
    });
    expect(most).toBe(2);
  });

  itWithPermits.each([
    ['that say other permits', permit(20)],
    ['that say none', { mode: 'read', ...PATIENT } as const],
    ['of an owner', { ...permit(2), owner: 'somebody' }],
  ])('%s also run one after the other, since the hold counts', async (_what, options) => {
    const { locks } = await startApp();
    const key = freshKey();
    await locks.withLock(key, permit(2), async () => {
      expect(await together(5, (work) => locks.withLock(key, options, work))).toBe(1);
    });
  });

  itWithPermits(
    'run one after the other below a nested call, and under several keys with one semaphore among them',
    async () => {
      const { locks } = await startApp();
      const [one, two] = [freshKey(), freshKey()];
      const reading = { mode: 'read', ...PATIENT } as const;
      const nested = (key: string | string[]) => together(5, (work) => locks.withLock(key, reading, work));
      await locks.withLock(one, permit(2), () =>
        locks.withLock([one, two], reading, async () => {
          expect(await nested(one)).toBe(1);
          expect(await nested([two, one])).toBe(1);
          expect(await nested(two)).toBe(5);
        }),
      );
    },
  );

  itWithPermits(
    'run one after the other under a write lock, even when it is downgraded, together with nested readers',
    async () => {
      const { locks } = await startApp();
      const key = freshKey();
      await locks.withLock(key, async (lock) => {
        for (const prepare of [() => Promise.resolve(), () => lock.downgrade()]) {
          await prepare();
          expect(await together(5, (work) => locks.withLock(key, permit(2), work))).toBe(1);
          expect(await together(5, (work) => locks.withLock(key, { mode: 'read', ...PATIENT }, work))).toBe(5);
        }
      });
    },
  );

  itWithPermits.each([
    ['reads', { mode: 'read', ...PATIENT }],
    ['has one of more permits', permit(3)],
  ] as const)('are refused under a hold that %s, since Redis would not count them', async (_what, outer) => {
    const [a, b] = [await startApp({}, { providers: [Imports] }), await startApp()];
    const tenant = freshKey();
    const key = `tenant:${tenant}`;
    const others = [await b.locks.acquire(key, permit(2)), await b.locks.acquire(key, permit(2))];
    const error = await a.locks.withLock(key, outer, () => rejection(a.app.get(Imports).run(tenant)));
    expect(error).toBeInstanceOf(LockReentryError);
    expect(error.message).toContain('at most 2');
    await Promise.all(others.map((other) => other.release()));
  });

  itWithPermits('are refused under a nested call that reads at the same time as its siblings', async () => {
    const { locks } = await startApp();
    const [key, reading] = [freshKey(), { mode: 'read', ...PATIENT } as const];
    await locks.withLock(key, async () => {
      const read = () => locks.withLock(key, reading, () => rejection(locks.withLock(key, permit(1), () => 'ran')));
      for (const error of await Promise.all([read(), read()])) expect(error).toBeInstanceOf(LockReentryError);
      await locks.withLock(key, async () => {
        expect(await together(5, (work) => locks.withLock(key, permit(1), work))).toBe(1);
      });
    });
    expect(await locks.isLocked(key)).toBe(false);
  });
});

describe('invalid permits', () => {
  itWithoutPermits('are refused with LockConfigurationError on a topology without permits', async () => {
    const { locks } = await startApp();
    const key = freshKey();
    const error = await rejection(locks.acquire(key, { mode: 'read', permits: 2 }));
    expect(error).toBeInstanceOf(LockConfigurationError);
    expect(error.message).toContain('permits');
    expect(await locks.isLocked(key)).toBe(false);
  });

  it.each([
    { permits: 2 },
    { permits: 2, mode: 'write' as const },
    ...[0, -1, 1.5, NaN, Infinity, '2', null].map((permits) => ({ permits: permits as number, mode: 'read' as const })),
  ])('are refused with LockConfigurationError before anything is sent: %p', async (options) => {
    const place = await ownPlace();
    const { locks } = await startApp(place.options);
    for (const call of [
      locks.acquire('key', options),
      locks.tryAcquire('key', options),
      locks.withLock('key', options, () => 'ran'),
    ]) {
      expect(await rejection(call)).toBeInstanceOf(LockConfigurationError);
    }
    await place.expectNotSent('evalsha');
  });
});
