// Mutants that change nothing that a caller can notice, as the list of survivors prints them, and why.

/** @type {readonly { file: string, was: string, becomes: string, why: string }[]} */
export const ACCEPTED = [
  {
    file: 'lib/redis/codec/replies.ts',
    was: 'token! >= last.token',
    becomes: 'token! > last.token',
    why: 'Two readers have one token only if one owner holds twice; the fields of a hash have no order, so either may come last.',
  },
  {
    file: 'lib/core/acquire/acquisition.ts',
    was: "'unanswered' in reply && reply.unanswered === true",
    becomes: "'unanswered' in reply || reply.unanswered === true",
    why: 'Only `unanswered: false` of a store differs: the release then also covers a copy that cannot arrive.',
  },
  {
    file: 'lib/core/acquire/local-queue.ts',
    was: 'hold.sentAt < this.#missedAt',
    becomes: 'hold.sentAt <= this.#missedAt',
    why: 'At the same instant the hold is released in the store instead: slower, and as safe.',
  },
  {
    file: 'lib/core/acquire/local-queue.ts',
    was: 'this.#byKey.get(hold.key)?.handOn(hold) ?? null',
    becomes: 'this.#byKey.get(hold.key)?.handOn(hold)',
    why: 'The only caller asks whether there is a hold.',
  },
  {
    file: 'lib/core/acquire/local-queue.ts',
    was: 'other.nr < call.nr',
    becomes: 'other.nr <= call.nr',
    why: 'A call that waits here does not ask, so it is not compared with itself.',
  },
  {
    file: 'lib/core/acquire/local-queue.ts',
    was: 'other.nr < nr',
    becomes: 'other.nr <= nr',
    why: 'A call that waits here does not ask, so it is not compared with itself.',
  },
  {
    file: 'lib/core/acquire/local-queue.ts',
    was: 'remainingAt(hold, now) >= this.#leastProvenMs',
    becomes: 'remainingAt(hold, now) > this.#leastProvenMs',
    why: 'With exactly half of its lease, which is a matter of rounding, the lock is released in the store instead: slower, and as safe.',
  },
  {
    file: 'lib/core/reentry/context.ts',
    was: 'worksOnStack >= MAX_ON_STACK',
    becomes: 'worksOnStack > MAX_ON_STACK',
    why: 'The limit is far from the size of a stack: one more call on it has no effect.',
  },
  {
    file: 'lib/core/hold/watchdog.ts',
    was: 'now.at',
    becomes: '0',
    why: 'A renewal that is due at a time in the past is sent in this turn, as one that is due now.',
  },
  {
    file: 'lib/core/hold/watchdog.ts',
    was: 'lock.maxHoldEnd?.at ?? Infinity',
    becomes: 'lock.maxHoldEnd?.at',
    why: 'No time is greater than `undefined`; the compiler does not accept it.',
  },
  {
    file: 'lib/core/hold/watchdog.ts',
    was: 'reply.remainingMs < shortest.remainingMs',
    becomes: 'reply.remainingMs <= shortest.remainingMs',
    why: 'Of two leases of one length, either is the shortest.',
  },
  {
    file: 'lib/redis/codec/script-calls.ts',
    was: 'at < 0',
    becomes: 'at <= 0',
    why: 'The first terms are then looked for by their text, which is found at the same place: slower, and the same command.',
  },
  {
    file: 'lib/redis/quorum/acquire-round.ts',
    was: 'retries[Math.min(majorityOf(this.nodes), retries.length) - 1] ?? 0',
    becomes: 'retries[Math.min(majorityOf(this.nodes), retries.length) - 1]',
    why: 'The pause without a time is the same as with 0; the compiler does not accept it.',
  },
  {
    file: 'lib/core/reentry/enter-lock.ts',
    was: 'a.key < b.key',
    becomes: 'a.key <= b.key',
    why: 'No two turns of a call have the same key.',
  },
  {
    file: 'lib/core/hold/lease.ts',
    was: 'clock.wallNow() - WALL_BASE',
    becomes: 'clock.wallNow() + WALL_BASE',
    why: 'Times of the wall clock are only subtracted from each other.',
  },
  {
    file: 'lib/core/hold/handover.ts',
    was: 'true',
    becomes: 'false',
    why: 'A hold is handed on only while its lease is proven, so the release of its call counts as held in both cases.',
  },
  {
    file: 'lib/redis/codec/replies.ts',
    was: "this.parts[index] ?? ''",
    becomes: 'this.parts[index]',
    why: 'A part that is missing is refused, or counts as an empty one, in the same way; the compiler does not accept it.',
  },
  {
    file: 'lib/core/hold/watchdog.ts',
    was: 'maxHoldMs < Infinity',
    becomes: 'maxHoldMs <= Infinity',
    why: 'A timer without a time never fires; the condition saves it.',
  },
  ...['store-hold', 'nested-hold'].map((name) => ({
    file: `lib/core/hold/${name}.ts`,
    was: '1',
    becomes: '0',
    why: 'The number of holders is compared with a number of permits, which is at least 1.',
  })),
];
