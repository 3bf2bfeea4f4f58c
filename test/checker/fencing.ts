import { grantsByKey, groupBy, lossesOf, sharesOwner, tokenOf, touches } from './spans.js';
import { type Call, type Fault, type History, type Span, type Violation } from './history.js';
import { type Mode } from './events.js';

interface Latest {
  readonly token: number;
  readonly call: Call | undefined;
}

const NONE: Latest = { token: 0, call: undefined };

/**
 * Each grant has a greater token than all earlier ones of its key. A grant is earlier if it existed before the call
 * began, or if the two holders exclude each other and it was proven first: the tokens are the order of the grants, and there is no
 * other one. In a quorum, two readers may have the same token, and a token may be smaller after a loss of data: the node forgets the
 * greater one that the clock of another node made, and the third node of a bare majority may never have heard of it. So may a server
 * that loses its data while its clock is set back (promise 8).
 */
export const fencing =
  (isQuorum: boolean) =>
  (history: History): Violation[] => {
    const owned = [...history.calls.values()].filter(({ owner }) => owner !== undefined);
    const stepsBack = history.faults.filter(({ stepsBackMs }) => stepsBackMs > 0);
    return [...grantsByKey(history)].flatMap(([key, grants]) => {
      const all = lossesOf(history, key).faults;
      const repeating = all.filter(
        ({ from, to }) =>
          isQuorum ||
          stepsBack.some((step) => step.from - step.stepsBackMs <= to && from <= step.to + step.stepsBackMs),
      );
      const joined = joining(history, key, owned);
      const conflicting = conflictsBefore(grants, key);
      const max: Record<Mode, Latest> = { read: NONE, write: NONE };
      const first = new Map<number | undefined, Call>();
      let next = 0;
      return grants
        .toSorted((a, b) => a.calledAt - b.calledAt)
        .flatMap((call) => {
          for (; next < grants.length && grants[next]!.grantedAt! < call.calledAt; next++)
            count(max, grants[next]!, key);
          // A lock that changes hands keeps its token.
          if (call.adopts !== undefined) return [];
          const twin = isQuorum ? undefined : twinOf(call, key, first);
          if (joined.has(call) && !twin) return [];
          const ended = isQuorum && call.mode === 'read' ? [max.write] : [max.read, max.write];
          const before =
            twin ??
            ended.find((latest) => isBroken(latest, call, key, repeating)) ??
            conflicting.get(call)!.find((latest) => isBroken(latest, call, key, all));
          if (!before) return [];
          const text = `${call.op} got ${key} with the token ${tokenOf(call, key)}, after ${before.call?.op} with ${before.token}`;
          return [{ rule: 'fencing' as const, t: call.grantedAt!, text }];
        });
    });
  };

/** A call with the same token, but another owner. */
function twinOf(call: Call, key: string, first: Map<number | undefined, Call>): Latest | undefined {
  const token = tokenOf(call, key);
  const twin = first.get(token);
  first.set(token, twin ?? call);
  return token === undefined || !twin || sharesOwner(twin, call) ? undefined : { token, call: twin };
}

function isBroken({ token, call: earlier }: Latest, call: Call, key: string, losses: readonly Fault[]): boolean {
  if (token < (tokenOf(call, key) ?? Infinity)) return false;
  if (!earlier) return true;
  const span = { from: Math.min(earlier.calledAt, call.calledAt), to: call.grantedAt! };
  return !losses.some((loss) => touches(loss, span));
}

/** The greatest tokens that were granted before each call to holders that exclude it, among calls that could prove their grants. */
function conflictsBefore(grants: readonly Call[], key: string): Map<Call, readonly Latest[]> {
  const max: Record<Mode, Latest> = { read: NONE, write: NONE };
  return new Map(
    grants.map((call) => {
      const isProven = call.until > call.grantedAt! && call.until < Infinity;
      const before = call.mode === 'read' ? [max.write] : [max.read, max.write];
      if (isProven) count(max, call, key);
      return [call, isProven ? before : []];
    }),
  );
}

/**
 * The calls that may have joined a hold of their owner instead of getting a new token: another call of that owner may
 * have had a hold then. While an address moves, two servers may each have a hold of one owner, and calls join either of them.
 */
function joining(history: History, key: string, ownedCalls: readonly Call[]): Set<Call> {
  const losses = lossesOf(history, key).faults;
  const owned = ownedCalls.filter(({ keys }) => keys.includes(key));
  const stepsBack = history.faults.filter(({ stepsBackMs }) => stepsBackMs > 0);
  const joined = new Set<Call>();
  for (const calls of groupBy(owned, ({ owner }) => owner).values()) {
    calls.sort((a, b) => a.calledAt - b.calledAt);
    const ends: End[] = [];
    for (const [i, call] of calls.entries()) {
      const asked = { from: call.calledAt, to: call.grantedAt ?? call.calledAt };
      const isHeld = ends.some((end) => mayBeThere(end, asked, stepsBack));
      const isBeside = isHeld || (calls[i + 1]?.calledAt ?? Infinity) <= asked.to;
      const wasLost = losses.some((loss) => touches(loss, { from: asked.from - call.leaseMs, to: asked.to }));
      if (isBeside || wasLost) joined.add(call);
      ends.push(endOf(history, call));
    }
  }
  return joined;
}

/** When the hold of a call ends on the server, if clocks are right; and whether that is the end of its lease. */
interface End {
  readonly calledAt: number;
  readonly at: number;
  readonly isOfLease: boolean;
}

/** A release without an answer may not have arrived: then the hold lasts until its lease ends. */
function endOf(history: History, call: Call): End {
  const { calledAt, leaseMs, transferredAt, releasedAt, wasHeld, failedAt = Infinity, until } = call;
  if (transferredAt !== undefined) return { calledAt, at: until + leaseMs, isOfLease: false };
  if (releasedAt !== undefined && wasHeld) return { calledAt, at: releasedAt, isOfLease: false };
  const { endedAt = Infinity } = history.process(call.process);
  // A dead process leaves its place, which may be granted until it ends.
  const isLeft = call.grantedAt === undefined && call.failedAt === undefined;
  const lastsMs = isLeft ? 2 * leaseMs : leaseMs;
  return { calledAt, at: Math.min(releasedAt ?? Infinity, failedAt, endedAt) + lastsMs, isOfLease: true };
}

/**
 * Whether a hold may be there for a call that asks in this span. If its lease has ended, it exists again when the clock of its
 * server steps back. The history does not record which of several servers has the hold: the steps of all of them count.
 */
function mayBeThere({ calledAt, at, isOfLease }: End, asked: Span, stepsBack: readonly Fault[]): boolean {
  if (at >= asked.from || !isOfLease) return at >= asked.from;
  const steps = stepsBack.filter(({ from, to }) => to >= calledAt && from <= asked.to);
  return steps.reduce((later, { stepsBackMs }) => later + stepsBackMs, at) >= asked.from;
}

function count(max: Record<Mode, Latest>, call: Call, key: string): void {
  const token = tokenOf(call, key) ?? 0;
  if (token > max[call.mode].token) max[call.mode] = { token, call };
}

/** A nested call has the token of its hold. */
export function reentry(history: History): Violation[] {
  return [...history.calls.values()].flatMap(({ op, grantedAt = 0, tokens, nestedTokens }) =>
    nestedTokens
      .filter((token) => token !== tokens?.[0])
      .map((token) => {
        const text = `a nested call of ${op} had the token ${token}, not ${tokens?.[0]}`;
        return { rule: 'reentry' as const, t: grantedAt, text };
      }),
  );
}
