import { createHash } from 'node:crypto';
import { LockConfigurationError } from '../../core/lock.errors.js';
import { TEXTS } from './texts.js';

/** The Lua scripts of one store, by name: `operate` changes locks. Provided in Nest as `LOCK_SCRIPTS`. */
export type LockScripts = Readonly<Record<'operate' | 'inspect' | 'appendHistory' | 'readHistory', string>>;

/** The texts of the `.lua` files in this folder, with their fragments and without comments. */
export const createLockScripts = (): LockScripts => ({ ...TEXTS });

/** A script as it is sent: by its hash, and by its text if the server does not have it. */
export interface LuaScript {
  readonly text: string;
  readonly sha1: string;
}

/** @throws LockConfigurationError if an app has replaced a script by anything but a text, or has left one out */
export const withHashes = (scripts: LockScripts): Readonly<Record<keyof LockScripts, LuaScript>> =>
  Object.fromEntries(
    (Object.keys(TEXTS) as (keyof LockScripts)[]).map((name) => {
      const text: unknown = scripts[name];
      if (typeof text === 'string') return [name, { text, sha1: createHash('sha1').update(text).digest('hex') }];
      throw new LockConfigurationError(
        `LOCK_SCRIPTS: expected \`${name}\` to be the text of a Lua script, got ${text === null ? 'null' : typeof text}. ` +
          'Begin with the scripts that createLockScripts() returns.',
      );
    }),
  ) as Record<keyof LockScripts, LuaScript>;
