import 'reflect-metadata';
import { LockConfigurationError } from '../../../lib/core/lock.errors.js';
import { RedisLockBoardModule, type RedisLockBoardOptions } from '../../../lib/board/index.js';

class AdminGuard {
  canActivate(): boolean {
    return true;
  }
}

class Fields {
  canActivate = (): boolean => true;
}

class Static {
  static canActivate(): boolean {
    return true;
  }
}

describe('the options of RedisLockBoardModule', () => {
  it.each<[string, unknown, RegExp]>([
    ['no object', undefined, /the options of RedisLockBoardModule to be an object, got undefined/],
    ['one that does not exist', { gaurd: AdminGuard }, /Unknown option `gaurd`.*expected one of path, guard/],
    ['no guard', {}, /no `guard`.*every client.*`guard: AdminGuard`.*`unguarded: true`/s],
    ['a guard that is not one', { guard: 'admin' }, /`guard` to be a guard of Nest.*got `admin`/],
    ['a guard in a list that is not one', { guard: [AdminGuard, {}] }, /`guard` to be a guard of Nest/],
    [
      'a class that is not a guard',
      { guard: Map },
      /`guard`.*got the function `Map` without a method `canActivate`.*Pass a class/,
    ],
    ['a function instead of a guard', { guard: () => true }, /got the function `guard`.*every client could open/],
    [
      'a guard class with a field instead of the method',
      { guard: Fields },
      /a field of the class.*`new AdminGuard\(\)`/,
    ],
    ['a guard and its absence', { guard: AdminGuard, unguarded: true }, /Leave one of them out/],
    ['a word for `unguarded`', { unguarded: 'yes' }, /`unguarded` to be true or false, got `yes`/],
    ['an empty path', { unguarded: true, path: '' }, /`path` to be a path.*'admin\/locks', got ""/],
    ['a path with a parameter', { unguarded: true, path: ':tenant/locks' }, /`path`/],
    ['a poll without a pause', { unguarded: true, refreshMs: 0 }, /`refreshMs` to be .* from 250 to 60000, got `0`/],
    ['a single action', { unguarded: true, actions: true }, /the options of `actions` to be an object/],
    ['an unknown action', { unguarded: true, actions: { release: true } }, /Unknown option `release` of `actions`/],
    ['a user that is not a function', { unguarded: true, actions: { user: 'ada' } }, /`actions.user` to be a function/],
  ])('refuse %s', (_what, options, text) => {
    expect(() => RedisLockBoardModule.forRoot(options as RedisLockBoardOptions)).toThrow(LockConfigurationError);
    expect(() => RedisLockBoardModule.forRoot(options as RedisLockBoardOptions)).toThrow(text);
  });

  it.each<[string, RedisLockBoardOptions]>([
    ['a guard object, and a class', { guard: [new AdminGuard(), AdminGuard] }],
    ['a guard class that is a guard itself', { guard: Static }],
    ['no guard, explicitly', { unguarded: true }],
    ['everything', { guard: AdminGuard, path: '/ops/locks/', refreshMs: 1_000, actions: { forceRelease: true } }],
  ])('accept %s', (_what, options) => {
    expect(RedisLockBoardModule.forRoot(options).controllers).toHaveLength(1);
  });

  it('refuse a factory that is not a function, and the mount options from a factory', async () => {
    expect(() => RedisLockBoardModule.forRootAsync({ unguarded: true } as never)).toThrow(/`useFactory`/);
    expect(() => RedisLockBoardModule.forRootAsync({ useFactory: () => ({}) })).toThrow(/no `guard`/);
    const { providers = [] } = RedisLockBoardModule.forRootAsync({
      unguarded: true,
      useFactory: () => ({ unguarded: true }) as object,
    });
    const [settings] = providers as { useFactory: () => Promise<unknown> }[];
    await expect(settings!.useFactory()).rejects.toThrow(/Unknown option `unguarded`/);
  });
});
