import { LockKeyError } from '../core/lock.errors.js';

const MAX_KEY_BYTES = 512;
const LONE_SURROGATE = /\p{Surrogate}/u;

/**
 * The storage keys of one prefix. A key is percent-encoded in `%`, `{` and `}`: injective, and never an accidental hash
 * tag of a cluster (`a` and `{a}` are two locks).
 */
export class RedisKeys {
  constructor(readonly prefix: string) {}

  /** @throws LockKeyError when the key is empty, ill-formed or too long */
  storageKey(key: string): string {
    if (typeof key !== 'string' || key === '') {
      throw new LockKeyError(
        `Expected a lock key to be a non-empty string, got ${key === '' ? 'an empty one' : typeof key}.`,
      );
    }
    if (LONE_SURROGATE.test(key)) {
      const text = `The lock key ${JSON.stringify(key)} holds half of a surrogate pair, which Redis would mix up with others.`;
      throw new LockKeyError(`${text} Cut strings between characters.`, { key });
    }
    const encoded = key.replace(/[%{}]/g, encodeURIComponent);
    const bytes = Buffer.byteLength(encoded);
    if (bytes > MAX_KEY_BYTES) {
      const text = `Expected a lock key of at most ${MAX_KEY_BYTES} bytes, got ${bytes}: "${key.slice(0, 40)}…".`;
      throw new LockKeyError(`${text} Use an id or a hash of the long part.`, { key });
    }
    return this.prefix + encoded;
  }

  /** The key as the caller gave it. */
  keyOf(storageKey: string): string {
    return storageKey.slice(this.prefix.length).replace(/%(25|7B|7D)/g, decodeURIComponent);
  }

  /** A pattern for SCAN: all storage keys whose key begins with `prefix`. */
  pattern(prefix: string, before = ''): string {
    const literal = before + this.prefix + prefix.replace(/[%{}]/g, encodeURIComponent);
    return `${literal.replace(/[\\*?[\]^-]/g, '\\$&')}*`;
  }
}
