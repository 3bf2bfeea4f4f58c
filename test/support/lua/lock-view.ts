import { type Hash } from './lua.js';

export interface Hold {
  readonly mode: string;
  /** 0: it only keeps the lock taken. */
  readonly token: number;
  readonly deadline: number;
  readonly lease: number;
  readonly owner: string | undefined;
  /** How many permits it takes. */
  readonly take: number;
  /** The token with which the next hold of its owner enters in this mode. */
  readonly entry: number;
}

export interface Waiter {
  readonly attempt: string;
  readonly mode: string;
  readonly fair: boolean;
  /** It has to send its request again in its turn. */
  readonly asksAgain: boolean;
  readonly deadline: number;
  readonly waiterLeaseMs: number;
  readonly permits: number;
  readonly take: number;
  /** Nothing listened for it in its turn: it keeps its place, and has its turn when it asks again. */
  readonly isPassedOver: boolean;
}

/** What is to be seen of a lock on a server. */
export interface LockView {
  readonly token: number;
  /** By attempt, also those whose leases are over. */
  readonly holds: ReadonlyMap<string, Hold>;
  /** By attempt, in order of their places; also those whose leases are over. */
  readonly queue: ReadonlyMap<string, Waiter>;
}

const NOTHING: LockView = { token: 0, holds: new Map(), queue: new Map() };

const views = new WeakMap<Hash, LockView>();

/** A lock as a server has it now. */
export function lockOn(server: { hash(key: string): Hash | undefined }, storageKey: string): LockView {
  const hash = server.hash(storageKey);
  if (!hash) return NOTHING;
  const view = views.get(hash) ?? viewOf(hash);
  views.set(hash, view);
  return view;
}

/** A hold that is not only kept for `holdAtLeastMs`. */
export function liveHold({ holds }: LockView, attempt: string): Hold | undefined {
  const hold = holds.get(attempt);
  return hold && hold.token > 0 ? hold : undefined;
}

/** Reads the fields that the scripts write (docs/adr/021-data-version-2.md). In a field, each byte is one character. */
function viewOf({ fields }: Hash): LockView {
  const state = fields.get('s') ?? 'A';
  const token = whole(state, 1, 7);
  const holds = new Map<string, Hold>();
  const entryOf = (owner: string, own: number): number => Math.max(Number(fields.get(`owned:${owner}`) ?? 0), own);
  // Behind the token, and the time until which the key is kept, D has counts, and C and D have the places of the queue.
  const isLong = state.startsWith('D');
  let at = { A: 14, B: 14, C: 45, D: 74 }[state[0]!]!;
  const hasOthers = at > 14;
  const head = whole(state, at - 26, 5);
  if (state.length > at) {
    const own = isLong ? whole(state, at, 7) : token;
    if (isLong) at += 7;
    holds.set(state.slice(at + 24), {
      mode: modeOf(state[at + 11]!),
      token: own,
      deadline: whole(state, at, 6),
      lease: whole(state, at + 6, 5),
      owner: undefined,
      take: whole(state, at + 12, 3),
      entry: own,
    });
  }
  if (!hasOthers) return { token, holds, queue: NOTHING.queue };
  const places: number[] = [];
  for (const [field, value] of fields) {
    // Records begin with a control character.
    if (value.charCodeAt(0) >= 48) continue;
    if (/^q\d+$/.test(field)) places.push(Number(field.slice(1)));
    else if (field.includes('.')) {
      const { attempt, owner, fair: _, waiterLeaseMs: lease, permits: __, ...hold } = recordOf(value);
      const known = owner === '-' ? undefined : owner;
      holds.set(attempt, { ...hold, lease, owner: known, entry: entryOf(owner, hold.token) });
    }
  }
  const queue = new Map<string, Waiter>();
  for (const place of places.sort((a, b) => a - b)) {
    const waiter = waiterOf(fields.get(`q${place}`)!, place < head);
    queue.set(waiter.attempt, waiter);
  }
  return { token, holds, queue };
}

/** A number of `width` bytes. */
function whole(bytes: string, at: number, width: number): number {
  let value = 0;
  for (let i = at; i < at + width; i++) value = value * 256 + (bytes.charCodeAt(i) || 0);
  return value;
}

const modeOf = (letter: string): string => (letter === 'w' ? 'write' : 'read');

/** Of a hold or a waiter. */
function recordOf(bytes: string) {
  const attemptEnd = 39 + whole(bytes, 37, 2);
  const ownerEnd = attemptEnd + 2 + whole(bytes, attemptEnd, 2);
  return {
    attempt: bytes.slice(39, attemptEnd),
    owner: bytes.slice(attemptEnd + 2, ownerEnd),
    mode: modeOf(bytes[23]!),
    fair: bytes[24]!,
    token: whole(bytes, 16, 7),
    deadline: whole(bytes, 0, 6),
    waiterLeaseMs: whole(bytes, 6, 5),
    take: whole(bytes, 25, 3),
    permits: whole(bytes, 28, 3),
  };
}

/** Most waiters of a long queue are as they were before. */
const [inTurn, passedOver] = [new Map<string, Waiter>(), new Map<string, Waiter>()];
const MOST_WAITERS = 10_000;

function waiterOf(record: string, isPassedOver: boolean): Waiter {
  const waiters = isPassedOver ? passedOver : inTurn;
  const known = waiters.get(record);
  if (known) return known;
  const { fair, owner: _, token: __, ...waiter } = recordOf(record);
  const one = { ...waiter, fair: fair !== '0', asksAgain: fair === '2', isPassedOver };
  if (waiters.size > MOST_WAITERS) waiters.clear();
  waiters.set(record, one);
  return one;
}
