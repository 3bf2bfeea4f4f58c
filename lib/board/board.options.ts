import { type CanActivate, type FactoryProvider, type ModuleMetadata, type Type } from '@nestjs/common';
import { LockConfigurationError } from '../core/lock.errors.js';
import { BOOLEAN, CONNECTION_NAME, duration } from '../core/option-checks.js';
import { checkIsObject, readOptions, refuse, shortened } from '../core/read-options.js';

/** A guard of Nest, as for `@UseGuards`: a class with the method `canActivate`, which Nest instantiates, or an object with it. */
export type BoardGuard = Type<CanActivate> | CanActivate;

/** What a reader of the board may do in addition to reading. */
export interface BoardActions {
  /**
   * Whether the board can take a lock away from its holders.
   * @default false
   */
  forceRelease?: boolean;
  /**
   * Whether the board can run a job with `oncePer` by hand, on the instance that serves the page.
   * @default false
   */
  runNow?: boolean;
  /**
   * Returns the user for the log and the history, from the request: `(request) => request.user.name`, or a promise of it. If it
   * throws, rejects or returns an empty name, the action is refused. Without it, the board acts as `board`.
   */
  user?: (request: any) => string | Promise<string>;
}

/** What a factory may decide when the app starts. */
export interface RedisLockBoardFactoryOptions {
  /** What a reader may do; nothing by default. */
  actions?: BoardActions;
  /**
   * How often the board queries Redis while a page is open, in milliseconds; less often when the answers are slow.
   * @default 2_000
   */
  refreshMs?: number;
}

/** What Nest must know before it builds the app. */
export interface RedisLockBoardMountOptions {
  /**
   * Where the board is, below the global prefix of the app.
   * @default 'locks'
   */
  path?: string;
  /** Who may open the board: one guard, or several, which must all agree. They protect all its routes. */
  guard?: BoardGuard | readonly BoardGuard[];
  /**
   * Mounts the board without a guard: every client that reaches the app sees its locks.
   * @default false
   */
  unguarded?: boolean;
  /** The name of the lock module whose locks it shows; without it, the default module. */
  connection?: string;
  /** Modules that export what the guards inject. */
  imports?: ModuleMetadata['imports'];
}

/** The options of `RedisLockBoardModule.forRoot`. */
export interface RedisLockBoardOptions extends RedisLockBoardMountOptions, RedisLockBoardFactoryOptions {}

/** The options of `RedisLockBoardModule.forRootAsync`. */
export interface RedisLockBoardAsyncOptions extends RedisLockBoardMountOptions {
  /** The tokens of the arguments of `useFactory`. */
  inject?: FactoryProvider['inject'];
  useFactory: (...args: any[]) => RedisLockBoardFactoryOptions | Promise<RedisLockBoardFactoryOptions>;
}

export type BoardSettings = Readonly<ReturnType<typeof settingsOf>>;

/** The checked options of where a board is, and who may open it; internal. */
export interface BoardMount {
  /** Without leading or trailing slashes. */
  readonly path: string;
  readonly guards: readonly BoardGuard[];
}

const FACTORY_NAMES = ['actions', 'refreshMs'] satisfies readonly (keyof RedisLockBoardFactoryOptions)[];
const MOUNT_NAMES = [
  'path',
  'guard',
  'unguarded',
  'connection',
  'imports',
] satisfies readonly (keyof RedisLockBoardMountOptions)[];

const OF = 'RedisLockBoardModule';
const REFRESH = duration({ min: 250, max: 60_000 });

/** Literal segments: a parameter or a wildcard would change the paths of the page's files. */
const PATH = /^\/?[\w.~-]+(\/[\w.~-]+)*\/?$/;

export function readBoardOptions(options: RedisLockBoardOptions): RedisLockBoardOptions {
  return readOptions(options, [...MOUNT_NAMES, ...FACTORY_NAMES], OF);
}

export function readAsyncOptions(options: RedisLockBoardAsyncOptions): RedisLockBoardAsyncOptions {
  const own = readOptions(options, [...MOUNT_NAMES, 'inject', 'useFactory'], OF) as RedisLockBoardAsyncOptions;
  if (typeof own.useFactory !== 'function') refuse('useFactory', own.useFactory, 'a function that returns options');
  return own;
}

/** Checks the result of a factory, or the same part of other options. */
export function settingsOf(options: RedisLockBoardFactoryOptions, connection: string | undefined) {
  const own: RedisLockBoardFactoryOptions = readOptions(options, FACTORY_NAMES, OF);
  const { actions = {}, refreshMs = 2_000 } = own;
  REFRESH.check(refreshMs, 'refreshMs');
  const names = ['forceRelease', 'runNow', 'user'] satisfies readonly (keyof BoardActions)[];
  const { forceRelease = false, runNow = false, user }: BoardActions = readOptions(actions, names, '`actions`');
  BOOLEAN.check(forceRelease, 'actions.forceRelease');
  BOOLEAN.check(runNow, 'actions.runNow');
  if (user !== undefined && typeof user !== 'function') {
    refuse('actions.user', user, 'a function that returns the name of the user of a request');
  }
  return { connection, refreshMs, canForceRelease: forceRelease, canRunNow: runNow, user };
}

/** @throws LockConfigurationError, also when there is neither a guard nor `unguarded: true` */
export function mountOf({
  path = 'locks',
  guard,
  unguarded = false,
  connection,
}: RedisLockBoardMountOptions): BoardMount {
  if (typeof path !== 'string' || !PATH.test(path)) {
    refuse('path', path, "a path of letters, digits, `-`, `_`, `.` and `~`, such as 'admin/locks'");
  }
  BOOLEAN.check(unguarded, 'unguarded');
  CONNECTION_NAME.check(connection, 'connection');
  const guards = guard === undefined ? [] : [guard].flat();
  for (const one of guards) checkIsGuard(one);
  if (guards.length > 0 && unguarded) {
    throw new LockConfigurationError(`${OF} has a \`guard\` and \`unguarded: true\`. Leave one of them out.`);
  }
  if (guards.length === 0 && !unguarded) {
    throw new LockConfigurationError(
      `${OF} has no \`guard\`: every client that reaches the app would see its locks. Pass one, such as \`guard: AdminGuard\`; ` +
        'or set `unguarded: true` if a guard of the app, or something in front of it, protects the path.',
    );
  }
  return { path: path.replace(/^\/|\/$/g, ''), guards };
}

function checkIsGuard(guard: unknown): void {
  if (typeof guard === 'function') return checkIsGuardClass(guard);
  try {
    checkIsObject(guard);
    if (typeof (guard as Partial<CanActivate>).canActivate === 'function') return;
  } catch {
    // Reported below.
  }
  refuse('guard', guard, 'a guard of Nest (a class or an object with `canActivate`), or a list of them');
}

/** Nest instantiates any class, and uses it as a guard only if it has the method. Otherwise the board would be open to all. */
function checkIsGuardClass(guard: Function): void {
  // Nest treats a function that has the method itself as an object.
  const owners = [guard, guard.prototype] as (Partial<CanActivate> | undefined)[];
  if (owners.some((owner) => typeof owner?.canActivate === 'function')) return;
  throw new LockConfigurationError(
    `Expected \`guard\` of ${OF} to be a guard of Nest, got the function \`${shortened(guard.name)}\` without a method ` +
      '`canActivate`: Nest would not ask it, and every client could open the board. Pass a class that has the method, or an object. ' +
      'If `canActivate` is a field of the class, pass an object of it: `new AdminGuard()`.',
  );
}
