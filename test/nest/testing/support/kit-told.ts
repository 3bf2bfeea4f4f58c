import { type Lock, type LockEventName, type LockEvents, LockError } from '../../../../lib/index.js';
import { EVENT_NAMES } from '../../../support/apps/event-names.js';

/** Production's tokens are microseconds; one that fits an INT hides a column that is too small. */
const tokenText = (token: unknown): string =>
  Number(token) > 2 ** 32 ? 'a token' : `the small token ${String(token)}`;
const timeText = (ms: unknown): string => (Number.isFinite(ms) ? 'a time' : String(ms));
const holderText = (holder: unknown): string => (holder === undefined ? 'nobody' : 'a holder');

/** What differs from run to run, by its name. */
const TEXTS: Readonly<Record<string, (value: unknown) => unknown>> = {
  fencingToken: tokenText,
  fencingTokens: (tokens) => (tokens as unknown[]).map(tokenText),
  waitedMs: timeText,
  heldMs: timeText,
  remainingMs: timeText,
  serverTimeMs: timeText,
  attempt: () => 'an attempt',
  holder: holderText,
  host: () => 'a host',
  pid: () => 'a pid',
  instance: () => 'a host and a pid',
  // What the client said, and what the kit says in its place.
  cause: (cause) => (cause === undefined ? undefined : 'a cause'),
  nodes: (nodes) => nodes,
};

/** An error text without what differs from run to run. */
const shapeOf = (message: string): string =>
  message
    .replace(/held by [^,]+,/, 'held by a holder,')
    .replace(/(was not acquired within \S+ ms: ).*/, '$1why')
    .replace(/(could not be \w+: ).*(\. It is held)/, '$1why$2')
    .replace(/\d{10,}/g, 'a token')
    .replace(/\b\d+ ms/g, 'a time');

/** A value without what differs from run to run. */
function told(value: unknown): unknown {
  if (value instanceof Error) return toldError(value);
  if (value instanceof Date) return 'a date';
  if (typeof value === 'number') return value > 2 ** 32 ? 'a token' : value;
  if (Array.isArray(value)) return value.map(told);
  if (typeof value !== 'object' || value === null) return value;
  if ('fencingTokens' in value) return toldLock(value as Lock);
  return Object.fromEntries(Object.entries(value).map(([name, one]) => [name, TEXTS[name]?.(one) ?? told(one)]));
}

function toldError(error: Error): unknown {
  const { name, message } = error;
  if (!(error instanceof LockError)) return { name, message };
  // An error of a lost or missing store is put into words by whoever was asked; its kind and its properties are not.
  const properties = Object.fromEntries(Object.entries(error));
  const isOfStore = error.code === 'LOCK_STORE' && !/was not acquired|It is held/.test(message);
  return { name, code: error.code, message: isOfStore ? 'why' : shapeOf(message), ...(told(properties) as object) };
}

function toldLock({ key, keys, mode, owner, fencingTokens, held, remainingMs, signal }: Lock): unknown {
  const tokens = fencingTokens.map(tokenText);
  const ours = owner.startsWith('owner') ? owner : 'an attempt';
  return { key, keys, mode, owner: ours, tokens, held, remains: remainingMs > 0, lost: told(signal.reason) };
}

/** How a call ended. */
export const ended = (call: Promise<unknown>): Promise<unknown> =>
  call.then(
    (value) => ({ resolved: told(value) }),
    (error: unknown) => ({ rejected: told(error) }),
  );

/** Records all events, in their order. */
export function record(events: LockEvents): unknown[] {
  const seen: unknown[] = [];
  const listen = (name: LockEventName) =>
    events.on(name, (event: object) => {
      // How often it is tried until the lease is over depends on how the network fails.
      if (name !== 'renewFailed' || (seen.at(-1) as unknown[] | undefined)?.[0] !== name)
        seen.push([name, told({ ...event })]);
    });
  EVENT_NAMES.forEach(listen);
  return seen;
}
