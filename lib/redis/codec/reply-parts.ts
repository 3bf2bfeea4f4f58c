import { LockKeyError, LockStoreError } from '../../core/lock.errors.js';
import { MAX_LEASE_MS } from '../../core/lock.options.js';
import { shortened } from '../../core/read-options.js';

/** The whole number that a text of up to 16 digits is; NaN for any other text. Read digit by digit, since each lock reads several. */
export function wholeNumber(text = ''): number {
  if (text.length === 0 || text.length > 16) return NaN;
  let value = 0;
  for (let i = 0; i < text.length; i++) {
    const digit = text.charCodeAt(i) - 48;
    if (digit < 0 || digit > 9) return NaN;
    value = 10 * value + digit;
  }
  return value;
}

/** The elements of one reply, which may be anything: something else than our script may have answered. */
export class ReplyParts {
  constructor(
    private readonly key: string,
    private readonly parts: readonly string[],
    /** False: it is what is stored, which stays as it is. */
    private readonly retryable = true,
  ) {}

  /** Whatever the element is; empty if there is none. */
  text(index: number): string {
    return this.parts[index] ?? '';
  }

  /** @throws LockStoreError for anything but a whole number in this range */
  whole(index: number, min = 0, max = Number.MAX_SAFE_INTEGER): number {
    const value = wholeNumber(this.text(index));
    return value >= min && value <= max ? value : this.refuse();
  }

  /** @throws LockKeyError if the tokens of the lock have become too great: no retry helps */
  token(index: number): number {
    const text = this.text(index);
    const value = wholeNumber(text);
    if (value > 0 && value <= Number.MAX_SAFE_INTEGER) return value;
    if (!/^\d{16,}$/.test(text) || Number.isSafeInteger(Number(text))) return this.refuse();
    const { key } = this;
    throw new LockKeyError(`The fencing token of the lock "${key}" is not a safe integer: ${shortened(text)}.`, {
      key,
    });
  }

  /** How long a lease lasts. */
  lease(index: number): number {
    return this.whole(index, 1, MAX_LEASE_MS);
  }

  /** @throws LockStoreError for anything but one of these */
  oneOf<T extends string>(index: number, texts: readonly T[]): T {
    return texts.find((text) => text === this.parts[index]) ?? this.refuse();
  }

  /** @throws LockStoreError, always: it is no reply of our script */
  refuse(): never {
    throw unreadableError(this.key, this.parts.join(' '), this.retryable);
  }
}

const unreadableError = (key: string, reply: string, retryable: boolean): LockStoreError =>
  new LockStoreError(
    `Redis sent a reply for the lock "${key}" that none of its scripts can send: "${shortened(reply)}". Check what answers ` +
      'at its address, and whether something else writes to its keys.',
    { key, retryable },
  );
