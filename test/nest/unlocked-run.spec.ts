import { Injectable } from '@nestjs/common';
import { lastValueFrom, Observable } from 'rxjs';
import { assertLocked, currentLock, Locked, LockNotHeldError, ReadLocked } from '../../lib/index.js';
import { FakeLockModule, FakeLockService } from '../../lib/testing/index.js';
import { rejection } from '../support/waiting/rejection.js';
import { closeAll, freshKey, startApp } from '../support/apps/lock-app.js';

const UNLOCKED = { onUnavailable: 'run-unlocked', waitMs: 0, connection: 'away' } as const;

interface Seen {
  readonly key: string;
  readonly held: boolean;
  readonly fencingToken: number | null;
}

const look = (key?: string): Seen => {
  const lock = currentLock<'run-unlocked'>(key);
  return { key: lock.key, held: lock.held, fencingToken: lock.fencingToken };
};

const without = (key: string): Seen => ({ key, held: false, fencingToken: null });

@Injectable()
class Orders {
  late: Promise<Seen> | undefined;

  @Locked('order:<0.id>', UNLOCKED)
  async charge(order: { id: string }): Promise<string> {
    const { signal, fencingToken } = currentLock();
    signal.throwIfAborted();
    return `${order.id} under ${fencingToken}`;
  }

  @ReadLocked(['order:<0>', 'price:<0>'], UNLOCKED)
  async ask(_id: string): Promise<unknown> {
    const lock = currentLock<'run-unlocked'>();
    const refused = [await rejection(lock.extend(1_000)), await rejection(lock.downgrade())];
    await lock.release();
    const { keys, mode, owner, fencingTokens, remainingMs, signal } = lock;
    return { keys, mode, owner, fencingTokens, remainingMs, isAborted: signal.aborted, refused };
  }

  @Locked('order:<0>', UNLOCKED)
  async assert(_id: string): Promise<void> {
    assertLocked();
  }

  @Locked('order:<0>', UNLOCKED)
  async outer(id: string): Promise<readonly Seen[]> {
    return [look(), await this.inner(id), look()];
  }

  /** Its Redis is available. */
  @Locked('item:<0>')
  async inner(id: string): Promise<Seen> {
    assertLocked();
    expect(look(`order:${id}`)).toEqual(without(`order:${id}`));
    return look();
  }

  @Locked('item:<0>')
  async heldOutside(id: string): Promise<readonly Seen[]> {
    return [await this.unlockedInside(id), look()];
  }

  @Locked('order:<0>', UNLOCKED)
  async unlockedInside(id: string): Promise<Seen> {
    assertLocked(`item:${id}`);
    return look();
  }

  @Locked('order:<0>', UNLOCKED)
  async leave(_id: string): Promise<void> {
    this.late = (async () => {
      await new Promise((resolve) => setImmediate(resolve));
      return look();
    })();
    this.late.catch(() => undefined);
  }

  @Locked('order:<0>', UNLOCKED)
  watch(_id: string): Observable<Seen> {
    return new Observable((subscriber) => {
      subscriber.next(look());
      subscriber.complete();
    });
  }

  @Locked('order:<0>', UNLOCKED)
  async watchLater(_id: string): Promise<Observable<Seen>> {
    return new Observable((subscriber) => {
      subscriber.next(look());
      subscriber.complete();
    });
  }

  @Locked('order:<0>', UNLOCKED)
  async *each(_id: string): AsyncGenerator<Seen> {
    yield look();
    yield look();
  }
}

async function start(): Promise<Orders> {
  const away = FakeLockModule.forRoot(new FakeLockService({ name: 'away' }).fail());
  const { app } = await startApp({}, { providers: [Orders], imports: [away] });
  return app.get(Orders);
}

afterEach(closeAll);

describe('a method that runs unlocked because Redis is away', () => {
  it('may read its lock, which is not held and has no token', async () => {
    const orders = await start();
    expect(await orders.charge({ id: '7' })).toBe('7 under null');
    expect(await orders.ask('7')).toEqual({
      keys: ['order:7', 'price:7'],
      mode: 'read',
      owner: null,
      fencingTokens: [null, null],
      remainingMs: 0,
      isAborted: false,
      refused: [expect.any(LockNotHeldError), expect.any(LockNotHeldError)],
    });
  });

  it('is refused where a call needs a lock', async () => {
    const error = await rejection((await start()).assert('7'));
    expect(error).toBeInstanceOf(LockNotHeldError);
    expect(error).toMatchObject({ key: 'order:7', message: expect.stringMatching(/not held: .*runs unlocked/) });
  });

  it('distinguishes its own lock from those that are held inside and outside', async () => {
    const [orders, id] = [await start(), freshKey()];
    const seen = await orders.outer(id);
    expect(seen).toMatchObject([without(`order:${id}`), { key: `item:${id}`, held: true }, without(`order:${id}`)]);
    const [inside, outside] = await orders.heldOutside(id);
    expect(inside).toEqual(without(`order:${id}`));
    expect(outside).toMatchObject({ key: `item:${id}`, held: true });
  });

  it('has no lock after it has ended, like any other method', async () => {
    const orders = await start();
    await orders.leave('7');
    expect(await rejection(orders.late!)).toBeInstanceOf(LockNotHeldError);
  });

  it('may return a stream', async () => {
    const orders = await start();
    expect(await lastValueFrom(orders.watch('7'))).toEqual(without('order:7'));
    expect(await lastValueFrom(await orders.watchLater('7'))).toEqual(without('order:7'));
    const seen: Seen[] = [];
    for await (const one of orders.each('7')) seen.push(one);
    expect(seen).toEqual([without('order:7'), without('order:7')]);
  });
});
