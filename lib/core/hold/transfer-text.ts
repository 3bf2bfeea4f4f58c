import { createHash } from 'node:crypto';
import { isWellFormed } from '../key.js';
import { LockConfigurationError, type LockMode } from '../lock.errors.js';
import { MAX_LEASE_MS } from '../lock.options.js';
import { type HoldRef, TOKENS_OF_A_WRITER } from '../store/lock-store.js';

/** One key of a hold that was transferred. */
export interface TransferredKey extends HoldRef {
  /** An acquire of the attempt had no answer, and may still reach the store. */
  readonly unanswered: boolean;
}

/** What another process needs to adopt a hold. */
export interface TransferredHold {
  /** The `keyPrefix` of its store. */
  readonly keyPrefix: string;
  /** In the order of the caller. Keys that were acquired one after the other have different attempts. */
  readonly holds: readonly TransferredKey[];
  readonly mode: LockMode;
  /** The original mode: it may have been downgraded since. */
  readonly grantedMode: LockMode;
  /** The name that the caller gave its owner. */
  readonly owner?: string | undefined;
  /** As in a grant. */
  readonly handedOn: number;
  readonly leaseMs: number;
  readonly renew: boolean;
  /** How much longer it may be held. */
  readonly maxHoldMs: number;
  readonly holdAtLeastMs: number;
}

/** The beginning of a transfer token, with its version. */
const BEGIN = 'lock1.';
/** Enough for 16 keys of 1,024 bytes, if JSON escapes each of these. */
const MAX_LENGTH = 200_000;
const MAX_KEYS = 16;

/** Returns the transfer token of a hold: the version, the hold as JSON, and a check of both. */
export function transferText(hold: TransferredHold): string {
  const text = BEGIN + Buffer.from(JSON.stringify(hold)).toString('base64url');
  return `${text}.${checkOf(text)}`;
}

/**
 * Reads a transfer token.
 * @throws LockConfigurationError, which does not contain the token: it is a secret that gives access to the lock
 */
export function readTransferText(text: unknown): TransferredHold {
  if (typeof text !== 'string') throw badTextError(`got a value of type ${typeof text}`);
  const [, version] = /^lock(\d{1,9})\./.exec(text) ?? [];
  if (version === undefined || text.length > MAX_LENGTH) throw badTextError(`got a text of ${text.length} characters`);
  if (version !== '1') {
    const advice = 'Update nestjs-redis-lock in the process that adopts it';
    throw badTextError(`got one of version ${version}, which this process does not support. ${advice}`);
  }
  const end = text.lastIndexOf('.');
  const hold = checkOf(text.slice(0, end)) === text.slice(end + 1) && holdIn(text.slice(BEGIN.length, end));
  if (!hold) throw badTextError(`got one of ${text.length} characters that was truncated or changed`);
  return hold;
}

const checkOf = (text: string): string => createHash('sha256').update(text).digest('base64url').slice(0, 8);

const badTextError = (got: string): LockConfigurationError =>
  new LockConfigurationError(
    `Expected the transfer token that \`await lock.transfer()\` has returned, ${got}. Pass it on unchanged.`,
  );

/** Returns null for an invalid payload. */
function holdIn(payload: string): TransferredHold | null {
  try {
    const read: unknown = JSON.parse(Buffer.from(payload, 'base64url').toString());
    // JSON has no Infinity.
    const hold = { ...(read as TransferredHold), maxHoldMs: (read as TransferredHold).maxHoldMs ?? Infinity };
    return isHold(hold) ? hold : null;
  } catch {
    return null;
  }
}

const isText = (value: unknown): boolean => typeof value === 'string' && isWellFormed(value);
const isMode = (value: unknown): boolean => value === 'read' || value === 'write';
const isWhole = (value: unknown, min: number, max = Number.MAX_SAFE_INTEGER): boolean =>
  Number.isSafeInteger(value) && (value as number) >= min && (value as number) <= max;

const CHECKS: { readonly [Name in keyof TransferredHold]-?: (value: any) => boolean } = {
  keyPrefix: isText,
  holds: (holds) => isWhole(holds.length, 1, MAX_KEYS) && holds.every(isKey) && areDistinct(holds),
  mode: isMode,
  grantedMode: isMode,
  owner: (owner) => owner === undefined || (isText(owner) && owner !== ''),
  handedOn: (handedOn) => isWhole(handedOn, 0, TOKENS_OF_A_WRITER - 1),
  leaseMs: (leaseMs) => isWhole(leaseMs, 1, MAX_LEASE_MS),
  renew: (renew) => typeof renew === 'boolean',
  maxHoldMs: (maxHoldMs) => maxHoldMs === Infinity || isWhole(maxHoldMs, 1),
  holdAtLeastMs: (holdAtLeastMs) => isWhole(holdAtLeastMs, 0, MAX_LEASE_MS),
};

const isHold = (hold: TransferredHold): boolean =>
  Object.entries(CHECKS).every(([name, check]) => check(hold[name as keyof TransferredHold]));

/** The scripts use an attempt as a part of a field and of a channel. */
const isKey = ({ key, attempt, fencingToken, unanswered }: TransferredKey): boolean =>
  isText(key) &&
  /^[\w-]{1,32}\.[\w-]{1,32}$/.test(attempt) &&
  isWhole(fencingToken, 1) &&
  typeof unanswered === 'boolean';

const areDistinct = (holds: readonly TransferredKey[]): boolean =>
  new Set(holds.map(({ key }) => key)).size === holds.length;
