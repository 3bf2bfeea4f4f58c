import { Limited, Locked, ReadLocked } from '../../lib/decorators/locked.decorator.js';
import type { LockedOptions, LockOptions, RedisLockService } from '../../lib/index.js';
import { check, type Order, type Same } from './support.js';

type OfCall = number | ((...args: any[]) => number);
check<Same<LockedOptions['permits'], OfCall | undefined>>();
check<Same<LockedOptions['take'], OfCall | undefined>>();
check<Same<LockedOptions['perInstance'], OfCall | undefined>>();
check<Same<LockOptions['take'], number | undefined>>();
check<Same<LockOptions['perInstance'], number | undefined>>();

export class Accepted {
  @Limited('tenant:<0.id>', 8, { take: 2, perInstance: 3 })
  async numbers(_order: Order): Promise<void> {}

  @Limited('tenant:<0.id>', () => 8, { take: (order: Order) => order.version, perInstance: () => 3 })
  async functionsOfTheArguments(_order: Order): Promise<void> {}

  @Limited('upload', 8, { take: (_size: number, ...rest: readonly string[]) => rest.length + 1, ifBusy: 'skip' })
  async functionOfAllArguments(_size: number, ..._rest: string[]): Promise<string | undefined> {
    return undefined;
  }

  @ReadLocked('report', { permits: 8, take: 2, perInstance: 3 })
  async asReader(): Promise<void> {}
}

export class Refused {
  // @ts-expect-error a number, or a function that returns one
  @Limited('upload', 8, { take: '2' })
  async text(): Promise<void> {}

  // @ts-expect-error the number of permits is known when the call is made
  @Limited('upload', 8, { take: async () => 2 })
  async promise(): Promise<void> {}

  // @ts-expect-error a number, or a function that returns one
  @Limited('upload', 8, { perInstance: true })
  async boolean(): Promise<void> {}

  // @ts-expect-error the function returns no number
  @Limited('upload', 8, { perInstance: (size: number) => `${size}` })
  async textOfFunction(_size: number): Promise<void> {}

  // @ts-expect-error the permits are the second argument
  @Limited('upload', 8, { permits: 9 })
  async permitsTwice(): Promise<void> {}

  // @ts-expect-error no such option
  @Locked('upload', { takes: 2 })
  async otherName(): Promise<void> {}
}

export async function calls(locks: RedisLockService): Promise<void> {
  await locks.withLock('upload', { mode: 'read', permits: 8, take: 2, perInstance: 3 }, () => undefined);
  // @ts-expect-error a call has its numbers; functions are for decorators
  await locks.acquire('upload', { mode: 'read', permits: 8, take: () => 2 });
  // @ts-expect-error a call has its numbers; functions are for decorators
  await locks.acquire('upload', { mode: 'read', permits: 8, perInstance: () => 2 });
}
