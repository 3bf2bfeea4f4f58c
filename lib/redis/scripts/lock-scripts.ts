import { createHash } from 'node:crypto';
import { TEXTS } from './texts.js';

/** The Lua scripts of one store, by operation; provided in Nest as `LOCK_SCRIPTS`. */
export type LockScripts = Readonly<
  Record<
    'operate' | 'adopt' | 'forceRelease' | 'setPermits' | 'writeBack' | 'inspect' | 'appendHistory' | 'readHistory',
    string
  >
>;

/** The texts of the `.lua` files beside this one, with their fragments and without comments. */
export const createLockScripts = (): LockScripts => ({ ...TEXTS });

/** A script as it is sent: by its hash, and by its text where the server does not know that. */
export interface LuaScript {
  readonly text: string;
  readonly sha1: string;
}

export const withHashes = (scripts: LockScripts): Readonly<Record<keyof LockScripts, LuaScript>> =>
  Object.fromEntries(
    Object.entries(scripts).map(([name, text]) => [
      name,
      { text, sha1: createHash('sha1').update(text).digest('hex') },
    ]),
  ) as Record<keyof LockScripts, LuaScript>;
