import { encodeKey, inOrder, isWellFormed, quoted, storedKey } from '../../core/key.js';
import { type LockErrorDetails, LockKeyError } from '../../core/lock.errors.js';
import { messageOf } from '../../core/reporter.js';
import { slotOf } from '../client/cluster-slots.js';
import { type RedisClient } from '../client/cluster.js';

const NO_TAG = (): undefined => undefined;

/** The storage keys of one prefix. In a cluster, a key may have a hash tag in front: `lock:{tag}key`. */
export class RedisKeys {
  /** `hashTag`: see the module option. */
  constructor(
    readonly prefix: string,
    private readonly hashTag: (key: string) => string | undefined = NO_TAG,
  ) {}

  /** The prefix of the channels of wake-ups. Passed as an argument, because the key prefix of a client does not apply to channels. */
  get channelPrefix(): string {
    // The scripts receive it in a text of several lines.
    return `${this.prefix.replaceAll('\n', '%0A')}wake:`;
  }

  /** The key of the history of the locks. It differs from all locks: an encoded key has no braces, and is not empty after its tag. */
  get historyKey(): string {
    return `${this.prefix}{history}`;
  }

  /**
   * Checks a key before anything is sent for it.
   * @throws LockKeyError when the key is empty, ill-formed or too long, or its hash tag cannot be used
   */
  check(key: string): void {
    storedKey(key, this.#checkedTagOf);
  }

  /** The storage key of a checked key. */
  storageKey(key: string): string {
    return this.prefix + this.#checkedTagOf(key) + encodeKey(key);
  }

  /** The key as the caller gave it. */
  keyOf(storageKey: string): string {
    const encoded = storageKey.slice(this.prefix.length).replace(/^\{[^}]*\}/, '');
    return encoded.replace(/%(25|7B|7D)/g, decodeURIComponent);
  }

  /** A pattern for SCAN that matches at least the storage keys of all keys that begin with `prefix` and contain `contains`. */
  pattern(prefix: string, contains = ''): string {
    const literal = (text: string): string => text.replace(/[\\*?[\]^-]/g, '\\$&');
    // Any tag may precede the key.
    const anyTag = this.hashTag === NO_TAG ? '' : '*';
    // The text may be a part of the prefix.
    const inside = contains === '' || prefix !== '' ? '' : `*${literal(encodeKey(contains))}`;
    return `${literal(this.prefix)}${anyTag}${literal(encodeKey(prefix))}${inside}*`;
  }

  /** Checked each time, because a function of the application may return or throw something new. */
  readonly #checkedTagOf = (key: string): string => {
    if (this.hashTag === NO_TAG) return '';
    const refuse = (got: string, details: LockErrorDetails = {}): never => {
      const text = `Expected \`hashTag\` to return a non-empty string or undefined for the lock key ${quoted(key)}, got ${got}.`;
      throw new LockKeyError(text, { key, ...details });
    };
    let tag: unknown;
    try {
      tag = this.hashTag(key);
    } catch (cause) {
      return refuse(`the error: ${messageOf(cause)}`, { cause });
    }
    if (tag === undefined || (typeof tag === 'string' && tag !== '' && isWellFormed(tag))) return tagText(tag);
    return refuse(typeof tag === 'string' ? quoted(tag) : typeof tag);
  };
}

const tagText = (tag: string | undefined): string => (tag === undefined ? '' : `{${encodeKey(tag)}}`);

/**
 * Splits keys into groups that one script may name: all on a single Redis, those of one slot on a cluster. Every client gets
 * the same order, by slot and then by the bytes of the storage key, so calls never wait for each other in a circle.
 */
export function groupKeys(
  keys: readonly string[],
  storageKey: (key: string) => string,
  { isCluster }: Pick<RedisClient, 'isCluster'>,
): readonly (readonly string[])[] {
  const groups = new Map<number, string[]>();
  for (const [stored, key] of inOrder(keys, storageKey)) {
    const slot = isCluster ? slotOf(stored) : 0;
    groups.set(slot, [...(groups.get(slot) ?? []), key]);
  }
  return [...groups].sort(([a], [b]) => a - b).map(([, group]) => group);
}
