import 'reflect-metadata';
import { Injectable } from '@nestjs/common';
import {
  Limited,
  LockBusyError,
  LockConfigurationError,
  Locked,
  LockWaitTimeoutError,
  ReadLocked,
} from '../../../lib/index.js';
import { eventually } from '../../support/waiting/eventually.js';
import { gate } from '../../support/waiting/gate.js';
import { rejection } from '../../support/waiting/rejection.js';
import { closeAll, freshKey, startApp } from '../../support/apps/lock-app.js';
import { itWithPermits } from '../../support/topologies/topology.js';
import { untilWaiting } from '../../support/waiting/waiters.js';

type Tenant = { readonly id: string; readonly seats: unknown };
const seatsOf = ({ seats }: Tenant): number => seats as number;
const AT_ONCE = { ifBusy: 'throw' } as const;

@Injectable()
class Imports {
  readonly seats = 1;

  @Limited('tenant:<0.id>', seatsOf, AT_ONCE)
  async run(_tenant: Tenant, until: Promise<void> = Promise.resolve()): Promise<string> {
    await until;
    return 'ran';
  }

  @ReadLocked('tenant:<0.id>', {
    permits(this: Imports) {
      return this.seats;
    },
    ...AT_ONCE,
  })
  async ofInstance(_tenant: Tenant): Promise<string> {
    return 'ran';
  }

  @Limited('tenant:<0.id>', seatsOf, { waitMs: 30 })
  async soon(_tenant: Tenant): Promise<string> {
    return 'ran';
  }
}

const start = async () => {
  const { app, locks } = await startApp({}, { providers: [Imports] });
  return { imports: app.get(Imports), locks };
};

afterEach(closeAll);

describe('permits as a function of the arguments', () => {
  itWithPermits('admit the number of calls that the function returns, over all instances', async () => {
    const [a, b, id, until] = [await start(), await start(), freshKey(), gate()];
    const tenant = { id, seats: 2 };
    const running = [a.imports.run(tenant, until.opened), b.imports.run(tenant, until.opened)];
    await untilHolders(a, id, 2);
    expect(await rejection(b.imports.run(tenant))).toBeInstanceOf(LockBusyError);
    expect(await b.imports.run({ id, seats: 3 })).toBe('ran');
    expect(await rejection(a.imports.ofInstance(tenant))).toBeInstanceOf(LockBusyError);
    until.open();
    expect(await Promise.all(running)).toEqual(['ran', 'ran']);
    expect(await a.imports.ofInstance(tenant)).toBe('ran');
  });

  itWithPermits('reject the call and send nothing when the function returns an invalid number', async () => {
    const { imports, locks } = await start();
    for (const seats of [0, -1, 1.5, NaN, Infinity, 100_001, '2', undefined, null, Promise.resolve(2)]) {
      const id = freshKey();
      const error = await rejection(imports.run({ id, seats }));
      expect(error).toBeInstanceOf(LockConfigurationError);
      expect(error.message).toMatch(/^Imports\.run: Expected `permits` to be a whole number from 1 to 100000, got /);
      expect((await locks.inspect(`tenant:${id}`)).fencingToken).toBe(0);
    }
  });

  it('can be combined with mode read only, and not with `oncePer`', () => {
    const define = (decorator: (...args: any[]) => unknown) => () =>
      decorator(Imports.prototype, 'run', { value: async () => undefined });
    expect(define(Locked('tenant', { permits: () => 2 }))).toThrow(/`permits`.*mode: 'read'/);
    expect(define(ReadLocked('tenant', { permits: () => 2, oncePer: 60_000 }))).toThrow('use it with @Locked');
    expect(define(ReadLocked('tenant', { permits: '2' as never }))).toThrow('Expected `permits`');
  });
});

describe('permits that are all taken', () => {
  itWithPermits('are reported by the error, with their number', async () => {
    const [{ imports, locks }, id, until] = [await start(), freshKey(), gate()];
    const running = [1, 2, 3].map(() => imports.run({ id, seats: 3 }, until.opened));
    await untilHolders({ locks }, id, 3);
    const busy = (await rejection(imports.run({ id, seats: 3 }))) as LockBusyError;
    expect(busy.message).toBe(
      `The lock "tenant:${id}" (read) is busy: all 3 permits are taken, and the call does not wait. Try later, or let it ` +
        "wait (`waitMs`, and for a method `ifBusy: 'wait'`).",
    );
    expect(busy).toMatchObject({ code: 'LOCK_BUSY', permits: 3 });
    const late = (await rejection(imports.soon({ id, seats: 3 }))) as LockWaitTimeoutError;
    expect(late).toBeInstanceOf(LockWaitTimeoutError);
    expect(late.message).toMatch(
      / was still busy after \d+ ms: all 3 permits are taken\. Wait longer \(`waitMs`\), or hold/,
    );
    expect(late.permits).toBe(3);
    const one = await rejection(imports.run({ id, seats: 1 }));
    expect(one.message).toContain('is busy: its only permit is taken, and');
    until.open();
    await Promise.all(running);
  });

  itWithPermits('are not reported when a writer holds the lock, or when the lock has no permits', async () => {
    const [{ imports, locks }, id] = [await start(), freshKey()];
    const key = `tenant:${id}`;
    const writer = await locks.acquire(key);
    const busy = (await rejection(imports.run({ id, seats: 3 }))) as LockBusyError;
    expect(busy.message).toContain('(read) is held by ');
    expect(busy.permits).toBeUndefined();
    await writer.release();
    const reader = await locks.acquire(key, { mode: 'read' });
    const other = (await rejection(locks.acquire(key, { waitMs: 0 }))) as LockBusyError;
    expect([other.message.includes('permit'), other.permits]).toEqual([false, undefined]);
    const waiting = locks.acquire(key, { waitMs: 25_000 });
    await untilWaiting({ locks }, key);
    await reader.release();
    await (await waiting).release();
  });
});

const untilHolders = async ({ locks }: Pick<Awaited<ReturnType<typeof start>>, 'locks'>, id: string, count: number) =>
  eventually(async () => (await locks.inspect(`tenant:${id}`)).holders.length === count);
