// Each takes a rule from lock.qnt; `find` stands once in it. The model then differs from what simulated servers do.

/** @type {readonly import('./models.mjs').Row[]} */
// prettier-ignore
export const LOCK_MUTANTS = [
  ['a writer enters while others read', 'not(writes(l)) and mode == "r" and (', 'not(writes(l)) and ('],
  ['permits are not counted', 'taken(l) + take <= permits', 'true'],
  ['the grant of a writer reserves one token', 'TOKENS = 64', 'TOKENS = 1'],
  ['a grant that is pushed lasts as long as a lease', 'min(p.lease, p.span)', 'p.lease'],
  ['who asks is served before the queue', 'isFree and admits(', 'admits('],
  ['a waiter that cannot be woken is granted', 'c.deaf.contains(p.attempt) or s.grants == GRANTS', 's.grants == GRANTS'],
  ['a request that is repeated does not keep the place', 'until: now(c) + c.span, isPassed', 'until: now(c), isPassed'],
  ['what has ended is granted again', 'l.ended.contains(c.attempt) or c.isLate', 'c.isLate'],
  ['a renewal leaves the lease as it is', 'until: max(h.until, now(c) + c.lease)\n      })', 'until: h.until\n      })'],
  ['nothing is handed over', '{ lock: serve(l, 0, c).lock, reply: reply }', '{ lock: l, reply: reply }'],
  ['a lease has no end', 'given.holds.filter(h => h.until > now(c))', 'given.holds'],
];
