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

/** Reads the fields that the scripts write (lib/redis/scripts/parts/state.ts). */
function viewOf({ fields }: Hash): LockView {
  const packed = fields.get('s');
  if (packed !== undefined) return packedView(packed);
  const [holds, queue] = [new Map<string, Hold>(), new Map<string, Waiter>()];
  const head = Number(fields.get('head') ?? 1);
  const places: number[] = [];
  for (const [field, value] of fields) {
    if (field.startsWith('hold:')) holds.set(field.slice(5), holdOf(value.split(' '), fields));
    else if (field.startsWith('queue:')) places.push(Number(field.slice(6)));
  }
  for (const place of places.sort((a, b) => a - b)) {
    const waiter = waiterOf(fields.get(`queue:${place}`)!, place < head);
    queue.set(waiter.attempt, waiter);
  }
  return { token: Number(fields.get('token') ?? 0), holds, queue };
}

function packedView(packed: string): LockView {
  const token = Number(packed.slice(1, 17));
  const [deadline, lease] = [Number(packed.slice(17, 30)), Number(packed.slice(30, 40))];
  const hold = { mode: 'write', token, deadline, lease, owner: undefined, take: 1, entry: token };
  return { ...NOTHING, token, holds: packed.length > 17 ? new Map([[packed.slice(40), hold]]) : NOTHING.holds };
}

function holdOf(record: readonly string[], fields: ReadonlyMap<string, string>): Hold {
  const [deadline, lease, mode, token, , owner] = record as [string, string, string, string, string, string];
  const entry = mode === 'write' ? fields.get('fence') : fields.get(`owned:${owner}`)?.split(' ')[1];
  return {
    ...modeOf(mode),
    token: Number(token),
    deadline: Number(deadline),
    lease: Number(lease),
    owner: owner === '-' ? undefined : owner,
    entry: Number(entry ?? 0),
  };
}

/** Most waiters of a long queue are as they were before. */
const [inTurn, passedOver] = [new Map<string, Waiter>(), new Map<string, Waiter>()];
const MOST_WAITERS = 10_000;

function waiterOf(record: string, isPassedOver: boolean): Waiter {
  const waiters = isPassedOver ? passedOver : inTurn;
  const known = waiters.get(record);
  if (known) return known;
  const waiter = newWaiter(record, isPassedOver);
  if (waiters.size > MOST_WAITERS) waiters.clear();
  waiters.set(record, waiter);
  return waiter;
}

function newWaiter(record: string, isPassedOver: boolean): Waiter {
  const [deadline, waiterLeaseMs, mode, fair, permits, , , attempt] = record.split(' ') as string[] & { 7: string };
  return {
    attempt,
    ...modeOf(mode!),
    fair: fair !== '0',
    asksAgain: fair === '2',
    deadline: Number(deadline),
    waiterLeaseMs: Number(waiterLeaseMs),
    permits: Number(permits),
    isPassedOver,
  };
}

/** Followed by the permits that are taken, unless it is one. */
const modeOf = (text: string): { readonly mode: string; readonly take: number } => {
  const mode = text.replace(/\d+$/, '');
  return { mode, take: Number(text.slice(mode.length) || 1) };
};
