import { type Change } from './rule.js';

/** Whether this hold re-enters a lock that its owner holds, and has a token that the owner had. */
export function isReentry({ lock }: Change, attempt: string): boolean {
  const hold = lock.holds.get(attempt)!;
  if (hold.owner === undefined) return false;
  return [...lock.holds].some(
    ([other, { owner, token, entry }]) => other !== attempt && owner === hold.owner && token > 0 && entry >= hold.token,
  );
}
