import 'reflect-metadata';
import { SetMetadata } from '@nestjs/common';
import { assertLocked, currentLock, LockBusyError, Locked, LockNotHeldError, WriteLocked } from '../../../lib/index.js';
import { eventually } from '../../support/waiting/eventually.js';
import { closeAll, freshKey, startApp } from '../../support/apps/lock-app.js';
import { gate } from '../../support/waiting/gate.js';

const BARE = async function charge(this: unknown, _order: unknown, _step: unknown): Promise<void> {};

describe('the definition of a class', () => {
  it('keeps the name, the length and all metadata of the method, set above or below', () => {
    class Orders {
      @SetMetadata('above', 1)
      @Locked('k')
      @SetMetadata('below', 2)
      async charge(_order: unknown, _step: unknown): Promise<void> {}
    }
    const method = Object.getOwnPropertyDescriptor(Orders.prototype, 'charge')!.value as (
      ...args: unknown[]
    ) => unknown;
    expect([method.name, method.length]).toEqual([BARE.name, BARE.length]);
    expect([Reflect.getMetadata('above', method), Reflect.getMetadata('below', method)]).toEqual([1, 2]);
    expect(Reflect.getMetadata('design:paramtypes', Orders.prototype, 'charge')).toEqual([Object, Object]);
  });
});

/** Methods whose work lasts until the test ends it. */
class Work {
  readonly tenant = 'eu';
  running = 0;
  done = gate();

  @WriteLocked('work:<0>')
  write(key: string): Promise<string> {
    return this.#work(key);
  }

  @Locked('work:<0>', { ifBusy: 'skip' })
  skip(key: string): Promise<string | undefined> {
    return this.#work(key);
  }

  @Locked('work:<0>', { ifBusy: 'throw' })
  orThrow(key: string): Promise<string> {
    return this.#work(key);
  }

  @Locked('work:<0>', { ifBusy: (key, ...args) => [key, args] })
  orElse(key: string, _second: number): Promise<unknown> {
    return this.#work(key);
  }

  @Locked(function (this: Work, id: string) {
    return [`${this.tenant}:${id}`];
  })
  async byFunction(_id: string): Promise<string> {
    return currentLock().key;
  }

  @Locked(['list:<0>'])
  async byList(_id: string): Promise<string> {
    return currentLock().key;
  }

  @Locked('outer:<0>', { ifBusy: 'skip' })
  async outer(key: string): Promise<string | undefined> {
    return this.orThrow(key);
  }

  async #work(key: string): Promise<string> {
    this.running += 1;
    await this.done.opened;
    this.running -= 1;
    return key;
  }
}

const start = async () => (await startApp({}, { providers: [Work] })).app.get(Work);
const startTwo = async () => [await start(), await start()] as const;

afterEach(closeAll);

describe('a decorated method', () => {
  it('excludes the same key on another instance of the app, until it ends', async () => {
    const [a, b] = await startTwo();
    const key = freshKey();
    const first = a.write(key);
    await eventually(() => a.running === 1);
    expect(await b.skip(key)).toBeUndefined();
    const second = b.write(key);
    b.done.open();
    expect(await b.write(freshKey())).toMatch(/^key-/);
    a.done.open();
    expect([await first, await second]).toEqual([key, key]);
  });

  it('handles a busy key by ifBusy: skip, throw, or a function of key and arguments', async () => {
    const [a, b] = await startTwo();
    const key = freshKey();
    const first = a.write(key);
    await eventually(() => a.running === 1);
    expect(await b.skip(key)).toBeUndefined();
    await expect(b.orThrow(key)).rejects.toMatchObject({ code: 'LOCK_BUSY', key: `work:${key}` });
    expect(await b.orElse(key, 2)).toEqual([`work:${key}`, [key, 2]]);
    expect(b.running).toBe(0);
    a.done.open();
    await first;
  });

  it('does not mistake the busy error of a nested lock for its own', async () => {
    const [a, b] = await startTwo();
    const key = freshKey();
    const first = a.write(key);
    await eventually(() => a.running === 1);
    await expect(b.outer(key)).rejects.toBeInstanceOf(LockBusyError);
    a.done.open();
    await first;
  });

  it('takes its key from a function that uses `this`, and from a list of one', async () => {
    const a = await start();
    expect(await a.byFunction('7')).toBe('eu:7');
    expect(await a.byList('7')).toBe('list:7');
  });
});

class Inside {
  late!: Promise<unknown>;

  @Locked('inside:<0>')
  async run(key: string): Promise<string> {
    assertLocked();
    assertLocked(`inside:${key}`);
    expect(() => currentLock('other')).toThrow(LockNotHeldError);
    return currentLock(`inside:${key}`).key;
  }

  @Locked('inside:<0>')
  async leaves(_key: string, ended: Promise<void>): Promise<void> {
    this.late = ended.then(() => currentLock()).catch((error: unknown) => error);
  }
}

describe('inside a decorated method', () => {
  it('currentLock() returns the lock, and throws outside', async () => {
    const inside = (await startApp({}, { providers: [Inside] })).app.get(Inside);
    const key = freshKey();
    expect(await inside.run(key)).toBe(`inside:${key}`);
    expect(() => currentLock()).toThrow(LockNotHeldError);
  });

  it('work that outlives the lock no longer holds it', async () => {
    const inside = (await startApp({}, { providers: [Inside] })).app.get(Inside);
    const ended = gate();
    await inside.leaves(freshKey(), ended.opened);
    ended.open();
    expect(await inside.late).toBeInstanceOf(LockNotHeldError);
  });
});
