import { grantsByKey, groupBy, lossesOf, touches } from '../spans.js';
import { type Call, type Fault, type History, type Span, type Violation } from '../history.js';

interface Latest {
  readonly token: number;
  readonly call: Call | undefined;
}

const NONE: Latest = { token: 0, call: undefined };

/**
 * Each grant has a token that is greater than all earlier ones of its key. A grant is earlier if it was there before the call
 * began. In a quorum, two readers may have the same token, and a token may be smaller after a loss of data: the node forgets the
 * greater one that the clock of another node made, and the third node of a bare majority may never have heard of it.
 */
export const fencing =
  (isQuorum: boolean) =>
  (history: History): Violation[] => {
    const owned = [...history.calls.values()].filter(({ owner }) => owner !== undefined);
    return [...grantsByKey(history)].flatMap(([key, grants]) => {
      const losses = isQuorum ? lossesOf(history, key) : [];
      const joined = joining(history, key, owned);
      const called = grants.toSorted((a, b) => a.calledAt - b.calledAt);
      const max: Record<'read' | 'write', Latest> = { read: NONE, write: NONE };
      let next = 0;
      return called.flatMap((call) => {
        for (; next < grants.length && grants[next]!.grantedAt! < call.calledAt; next++) count(max, grants[next]!, key);
        const token = tokenOf(call, key);
        // A lock that changes hands keeps its token.
        if (token === undefined || joined.has(call) || call.adopts !== undefined) return [];
        const compared = isQuorum && call.mode === 'read' ? [max.write] : [max.read, max.write];
        const before = compared.find((latest) => latest.token >= token);
        if (!before) return [];
        const earlier = before.call;
        const span = earlier && { from: earlier.calledAt, to: call.grantedAt! };
        if (span && losses.some((loss) => touches(loss, span))) return [];
        const text = `${call.op} got ${key} with the token ${token}, after ${earlier?.op} with ${before.token}`;
        return [{ rule: 'fencing' as const, t: call.grantedAt!, text }];
      });
    });
  };

/**
 * The calls that may have joined a hold of their owner instead of getting a token of their own: another call of that owner may
 * have had a hold then. While an address moves, two servers may each have a hold of one owner, and calls join either of them.
 */
function joining(history: History, key: string, ownedCalls: readonly Call[]): Set<Call> {
  const losses = lossesOf(history, key);
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

/** When the hold of a call is over on the server, as far as clocks keep time; and whether that is the end of its lease. */
interface End {
  readonly calledAt: number;
  readonly at: number;
  readonly isOfLease: boolean;
}

/** Without an answer, a release may not have come: then the hold lasts until its lease ends. */
function endOf(history: History, call: Call): End {
  const { calledAt, leaseMs, transferredAt, releasedAt, wasHeld, failedAt = Infinity, until } = call;
  if (transferredAt !== undefined) return { calledAt, at: until + leaseMs, isOfLease: false };
  if (releasedAt !== undefined && wasHeld) return { calledAt, at: releasedAt, isOfLease: false };
  const { endedAt = Infinity } = history.process(call.process);
  return { calledAt, at: Math.min(releasedAt ?? Infinity, failedAt, endedAt) + leaseMs, isOfLease: true };
}

/**
 * Whether a hold may be there for a call that asks in this span. If its lease has ended, it is there again when the clock of its
 * server steps back. The history does not say which of several servers has the hold: the steps of all of them count.
 */
function mayBeThere({ calledAt, at, isOfLease }: End, asked: Span, stepsBack: readonly Fault[]): boolean {
  if (at >= asked.from || !isOfLease) return at >= asked.from;
  const steps = stepsBack.filter(({ from, to }) => to >= calledAt && from <= asked.to);
  return steps.reduce((later, { stepsBackMs }) => later + stepsBackMs, at) >= asked.from;
}

const tokenOf = (call: Call, key: string): number | undefined => call.tokens?.[call.keys.indexOf(key)];

function count(max: Record<'read' | 'write', Latest>, call: Call, key: string): void {
  const token = tokenOf(call, key) ?? 0;
  if (token > max[call.mode].token) max[call.mode] = { token, call };
}

/** A resource that checks tokens has every write that it confirmed. */
export function fencedWrites(history: History): Violation[] {
  return [...history.resources].flatMap(([key, { confirmed, counted }]) => {
    const text = `${key} lost ${confirmed - counted} fenced writes`;
    return confirmed === counted ? [] : [{ rule: 'fenced-writes' as const, t: history.endedAt, text }];
  });
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
