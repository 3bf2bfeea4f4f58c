import { type Call, type History, standstillsOf, type Violation } from './history.js';
import { linearize, type Operation, type Refutation, type Sequential } from './linearize.js';
import { beliefOf, grantsByKey, isForgotten, type Losses, lossesOf, sharesOwner, writing } from './spans.js';

/** A grant. Its hold ends by a release, or by the loss that its holder learns of: at any time after the holder believes in it last. */
interface Grant extends Operation {
  readonly call: Call;
  /** Until when it excludes others, and until when it writes. */
  readonly heldUntil: number;
  readonly writesUntil: number;
}

/** A mutex, a read-write lock or a semaphore, as the calls of the key ask: the grants whose holds may be there. */
class LockObject implements Sequential<readonly Grant[], Grant> {
  readonly start: readonly Grant[] = [];

  constructor(
    private readonly losses: Losses,
    private readonly hasPermits: boolean,
  ) {}

  next(holds: readonly Grant[], grant: Grant, from: number) {
    let time = from;
    const beside = holds.filter((hold) => hold.heldUntil > from && !this.#isExcused(hold, grant));
    for (const hold of beside) time = Math.max(time, endOfConflict(hold, grant));
    const { mode, permits, take } = grant.call;
    const isLimited = this.hasPermits && mode === 'read' && permits > 0;
    for (const { heldUntil } of beside.toSorted((a, b) => a.heldUntil - b.heldUntil)) {
      const taken = beside.reduce((sum, hold) => sum + (hold.heldUntil > time ? hold.call.take : 0), 0);
      if (isLimited && taken + take > permits) time = Math.max(time, heldUntil);
    }
    return { state: [...holds.filter((hold) => hold.heldUntil > time), grant], time };
  }

  /** The calls of an owner share a lock, and a loss of data ends one before its holder learns of it. */
  #isExcused(hold: Grant, grant: Grant): boolean {
    const to = Math.min(hold.heldUntil, grant.heldUntil);
    return sharesOwner(hold.call, grant.call) || isForgotten(this.losses, hold.call, grant.call, to);
  }
}

const endOfConflict = (hold: Grant, { call }: Grant): number =>
  call.mode === 'write' ? hold.heldUntil : hold.writesUntil;

/**
 * Two holders never both believe to hold one key, unless they are readers; and never more readers than permits: the grants of each
 * key have an order in which a lock makes them. A call without an answer may have been granted or not, which excludes nothing.
 */
export function exclusion(history: History): Violation[] {
  return [...grantsByKey(history)].flatMap(([key, calls]) => {
    const losses = lossesOf(history, key);
    const grants = calls.map((call) => grantOf(history, call)).filter((grant) => grant !== undefined);
    const object = new LockObject(losses, true);
    const found = linearize(grants, object);
    if (!found || (!found.isComplete && !areTwoTogether(grants, object))) return [];
    const isOfPermits = !linearize(grants, new LockObject(losses, false));
    return [violation(key, isOfPermits ? 'permits' : 'exclusion', found)];
  });
}

/**
 * Whether two calls that exclude each other, whichever came first, believe to hold the lock at the same time: what is left to prove
 * when the search was given up.
 */
function areTwoTogether(grants: readonly Grant[], object: LockObject): boolean {
  const isAfter = (hold: Grant, grant: Grant, from: number): boolean => object.next([hold], grant, from).time > from;
  return grants.some((one, i) =>
    grants.slice(i + 1).some((other) => {
      const from = Math.max(one.to, other.to);
      return isAfter(one, other, from) && isAfter(other, one, from);
    }),
  );
}

function violation(
  key: string,
  rule: 'permits' | 'exclusion',
  { operation: { call, to }, state, isComplete }: Refutation<readonly Grant[], Grant>,
): Violation {
  const holders = state.filter(({ heldUntil }) => heldUntil > to);
  const names = holders.map((one) => `${one.call.op} (${one.call.mode}) held it until ${one.heldUntil.toFixed(1)}`);
  const of = call.permits > 0 ? ` of ${call.permits} permits` : '';
  const search = isComplete ? '' : ', and the search for another order was given up';
  const text = `${call.op} (${call.mode}${of}) was granted ${key} at ${to.toFixed(1)}, while ${names.join(' and ')}${search}`;
  return { rule, t: to, text };
}

/** A hold that its holder never believed in excludes nothing; nor does a client that cannot prove its lease while it stands still. */
function grantOf(history: History, call: Call): Grant | undefined {
  const { roundingMs } = history.limits;
  const { from, to } = beliefOf(history, call);
  if (to - from <= roundingMs) return undefined;
  const stops = call.until === Infinity ? standstillsOf(history.process(call.process)) : [];
  const stop = stops.find((one) => one.to > from)?.from ?? Infinity;
  const heldUntil = Math.min(to, stop) - roundingMs;
  return {
    call,
    from: call.calledAt,
    to: from,
    heldUntil,
    writesUntil: Math.min(writing(call, { from, to }).to, heldUntil),
  };
}
