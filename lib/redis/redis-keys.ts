import { LockKeyError } from '../core/lock.errors.js';

const MAX_KEY_BYTES = 512;
const LONE_SURROGATE = /\p{Surrogate}/u;
const NO_TAG = (): undefined => undefined;

/**
 * The storage keys of one prefix. A key is percent-encoded in `%`, `{` and `}`: injective, and never an accidental hash
 * tag of a cluster (`a` and `{a}` are two locks). A tag that is wanted stands before it: `lock:{tag}key`.
 */
export class RedisKeys {
  /** `hashTag`: see the module option. */
  constructor(
    readonly prefix: string,
    private readonly hashTag: (key: string) => string | undefined = NO_TAG,
  ) {}

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
    const encoded = this.#tagOf(key) + encode(key);
    const bytes = Buffer.byteLength(encoded);
    if (bytes > MAX_KEY_BYTES) {
      const text = `Expected a lock key of at most ${MAX_KEY_BYTES} bytes, got ${bytes}: "${key.slice(0, 40)}…".`;
      throw new LockKeyError(`${text} Use an id or a hash of the long part.`, { key });
    }
    return this.prefix + encoded;
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
    return `${literal(before + this.prefix)}${anyTag}${literal(encode(prefix))}*`;
  }

  #tagOf(key: string): string {
    const tag: unknown = this.hashTag(key);
    if (tag === undefined) return '';
    if (typeof tag === 'string' && tag !== '' && !LONE_SURROGATE.test(tag)) return `{${encode(tag)}}`;
    const got = typeof tag === 'string' ? JSON.stringify(tag) : typeof tag;
    const text = `Expected \`hashTag\` to give a non-empty string or undefined for the lock key "${key}", got ${got}.`;
    throw new LockKeyError(text, { key });
  }
}

const encode = (text: string): string => text.replace(/[%{}]/g, encodeURIComponent);
