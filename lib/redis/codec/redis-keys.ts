import { encodeKey, isWellFormed, storedKey } from '../../core/key.js';
import { LockKeyError } from '../../core/lock.errors.js';

const NO_TAG = (): undefined => undefined;

/** The storage keys of one prefix. A hash tag of a cluster that is wanted stands before the key: `lock:{tag}key`. */
export class RedisKeys {
  /** `hashTag`: see the module option. */
  constructor(
    readonly prefix: string,
    private readonly hashTag: (key: string) => string | undefined = NO_TAG,
  ) {}

  /** @throws LockKeyError when the key is empty, ill-formed or too long */
  storageKey(key: string): string {
    return this.prefix + storedKey(key, (one) => this.#tagOf(one));
  }

  /** The key as the caller gave it. */
  keyOf(storageKey: string): string {
    const encoded = storageKey.slice(this.prefix.length).replace(/^\{[^}]*\}/, '');
    return encoded.replace(/%(25|7B|7D)/g, decodeURIComponent);
  }

  /** A pattern for SCAN: all storage keys whose key begins with `prefix`, at least; `before` is what stands before them. */
  pattern(prefix: string, before = ''): string {
    const literal = (text: string): string => text.replace(/[\\*?[\]^-]/g, '\\$&');
    // A tag stands before the key, and may be any.
    const anyTag = this.hashTag === NO_TAG ? '' : '*';
    return `${literal(before + this.prefix)}${anyTag}${literal(encodeKey(prefix))}*`;
  }

  #tagOf(key: string): string {
    const tag: unknown = this.hashTag(key);
    if (tag === undefined) return '';
    if (typeof tag === 'string' && tag !== '' && isWellFormed(tag)) return `{${encodeKey(tag)}}`;
    const got = typeof tag === 'string' ? JSON.stringify(tag) : typeof tag;
    const text = `Expected \`hashTag\` to give a non-empty string or undefined for the lock key "${key}", got ${got}.`;
    throw new LockKeyError(text, { key });
  }
}
