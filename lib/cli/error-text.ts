import { LockError } from '../core/lock.errors.js';
import { printable } from '../core/printable.js';
import { messageOf } from '../core/reporter.js';

/** The advice of the module names its options; here are those of the tool. */
const INSTEAD: readonly (readonly [of: RegExp, instead: string])[] = [
  [/`connection: \{ cluster: \[\.\.\.\] \}`/g, '`--cluster`'],
  [/`connection: \{ sentinels: \[\.\.\.\], name \}`/g, '`--sentinel` and `--sentinel-name`'],
  [/give one in `connection`/g, 'set REDIS_LOCK_PASSWORD'],
  [/Check user and password of `connection`/g, 'Check --username and REDIS_LOCK_PASSWORD'],
  [/leave out `cluster`/g, 'use `--url`'],
  [/give another `db` in `connection`/g, 'give another one in `--url`'],
  [/Give the locks a `keyPrefix` of their own/gi, 'Give the locks of the app a `keyPrefix` of their own'],
  [/Redis could not serve the lock "(?:doctor|[^"]*\*)": /g, ''],
];

/** A text of the module, in the words of the tool. */
export const inWordsOfTool = (text: string): string =>
  INSTEAD.reduce((result, [of, instead]) => result.replace(of, instead), text);

/** An error for people, on one line. */
export const errorText = (error: unknown): string =>
  printable(error instanceof LockError ? inWordsOfTool(messageOf(error)) : messageOf(error));
