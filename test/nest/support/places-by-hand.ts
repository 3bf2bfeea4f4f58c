import { type ModuleMetadata } from '@nestjs/common';
import { currentLock, Locked, LockConfigurationError } from '../../../lib/index.js';
import { rejection } from '../../support/waiting/rejection.js';
import { freshKey, type LockApp, startApp } from '../../support/apps/lock-app.js';

/** Keys under which a method ran; each test asks for its own. */
const ran: string[] = [];
export const hasRun = (key: string): boolean => ran.includes(`base:${key}`);

/** A service, built in any way. */
export class Base {
  readonly name: string = 'base';

  @Locked('base:<0>')
  async run(_id: string): Promise<string> {
    ran.push(currentLock().key);
    return currentLock().key;
  }

  @Locked('base:<0>')
  async named(id: string): Promise<string> {
    return `${this.name}:${id}`;
  }

  @Locked('base:<0>')
  async seenBy(_id: string, see: () => Promise<unknown>): Promise<unknown> {
    return see();
  }
}

/** Starts an app whose keys differ from those of another app by their prefix. */
export const start = (providers: ModuleMetadata['providers'] = [], keyPrefix = 'lock:') =>
  startApp({ keyPrefix }, { providers });

/** Whether calls of this object are locked by this app. */
export async function isLockedBy(service: Base, { locks }: LockApp): Promise<unknown> {
  const key = freshKey();
  return service.seenBy(key, () => locks.isLocked(`base:${key}`));
}

/** Two running modules, so that code without an injected one cannot know which to use. */
export async function startTwo(): Promise<[own: LockApp, other: LockApp]> {
  return [await start([Base], `${freshKey('own')}:`), await start([], `${freshKey('other')}:`)];
}

/** Asserts that a call is refused with advice, and that its method did not run. */
export async function expectRefused(call: (key: string) => Promise<unknown>, text: string): Promise<void> {
  const key = freshKey();
  const error = await rejection(call(key));
  expect(error).toBeInstanceOf(LockConfigurationError);
  expect(error.message).toMatch(new RegExp(`^Base\\.\\w+ is locked, but ${text}`));
  expect(error.message).toMatch(/Let Nest build the class .*, or import RedisLockModule\.forRoot\(\) exactly once\.$/);
  expect(hasRun(key)).toBe(false);
}

export const NONE = 'no RedisLockModule is running';
export const SEVERAL = 'several RedisLockModules are running';

/** The methods of an object, for calls without it. */
type Detached = {
  readonly [Name in 'run' | 'named' | 'seenBy']: (
    this: void,
    ...args: Parameters<Base[Name]>
  ) => ReturnType<Base[Name]>;
};

/** Detaches a method, as `const { run } = withoutThis(service)`. */
export const withoutThis = (service: Base): Detached => service;
