// Each takes a rule from hand-over.qnt; `find` stands once in it.

/** @type {readonly import('./models.mjs').Mutant[]} */
export const HAND_OVER_MUTANTS = [
  {
    name: 'a pushed lease counts from its arrival',
    find: 'min(c.busyAt, now) + WAITER_LEASE',
    replace: 'now + WAITER_LEASE',
  },
  {
    name: 'a pushed lease counts as a full one',
    find: 'min(c.busyAt, now) + WAITER_LEASE',
    replace: 'min(c.busyAt, now) + LEASE',
  },
  { name: 'a push of an earlier token counts', find: ' and m.token > c.lastToken', replace: '' },
  {
    name: 'a push of an earlier attempt counts',
    find: 'if (m.attempt != c.attempt) c',
    replace: 'if (m.attempt != c.attempt and m.kind != "push") c',
  },
  {
    name: 'a push counts before the first answer',
    find: 'if (c.busyAt > 0 and isNew) hold(c, m, now, min(c.busyAt, now)',
    replace: 'if (isNew or c.busyAt == 0) hold(c, m, now, min(c.sentAt, now)',
  },
  {
    name: 'who asks is served before the queue',
    find: 'if (isQueued(s, m.attempt)) s.queue.foldl(',
    replace: 'if (not(isQueued(s, m.attempt))) [place].concat(s.queue) else if (true) s.queue.foldl(',
  },
  {
    name: 'a release leaves the place in the queue',
    find: 'val s = withoutPlace(swept(given, t), m.attempt)',
    replace: 'val s = swept(given, t)',
  },
  { name: 'a place has no lease', find: 'queue: s.queue.select(place => place.until > t)', replace: 'queue: s.queue' },
  {
    name: 'a place outlasts its lease',
    find: 'client: m.client, until: t + WAITER_LEASE',
    replace: 'client: m.client, until: t + 100',
  },
  {
    name: 'a release ends the hold of any attempt',
    find: 'val hold = if (s.hold.attempt == m.attempt) NOBODY',
    replace: 'val hold = if (true) NOBODY',
  },
  { name: 'an old acquire is granted', find: 't - m.sentAt > MAX_AGE and', replace: 'false and' },
  {
    name: 'an attempt that was given back is forgotten',
    find: 'if (isGivenBack(s, m.attempt, t))',
    replace: 'if (false)',
  },
  {
    name: 'of attempts given back only the last is remembered',
    find: 's.late.exists(one => one.attempt == attempt and t - one.at <= MAX_AGE),',
    replace: 'false',
  },
  {
    name: 'nobody tells that an acquire may arrive',
    find: 'val mayArrive = c.handedOn == 0 and isUnanswered(c, sent)',
    replace: 'val mayArrive = false',
  },
  {
    name: 'a lease counts from the answer',
    find: 'hold(c, m, c.sentAt, c.sentAt + LEASE)',
    replace: 'hold(c, m, c.sentAt, now + LEASE)',
  },
  { name: 'an answer to an earlier command counts', find: ' and m.sentAt == c.sentAt)', replace: ')' },
  {
    name: 'a renewed lease counts from the answer',
    find: 'max(c.until, m.sentAt + LEASE)',
    replace: 'max(c.until, now + LEASE)',
    samples: 5_000,
  },
  {
    name: 'a pushed grant has the last token',
    find: 'val token = nextToken(s, t)',
    replace: 'val token = if (lease == LEASE) nextToken(s, t) else s.last',
  },
  {
    name: 'a token is the next one behind those reserved',
    find: 'max(s.last + TOKENS, 10 * t)',
    replace: 's.last + TOKENS',
  },
  { name: 'a token is the time', find: 'max(s.last + TOKENS, 10 * t)', replace: '10 * t' },
  {
    name: 'a cancelled call gives nothing back',
    find: 'else become(id, IDLE, net.union(releaseOf(id, c, master, net, now)), "cancelled")',
    replace: 'else become(id, IDLE, net, "cancelled")',
  },
  {
    name: 'a release is sent once',
    find: 'become(m.client, c, if (isRetried(m)) net else rest, "lost")',
    replace: 'become(m.client, c, rest, "lost")',
  },
  { name: 'nobody is told that the lease is over', find: 'clients.get(i).until <= t)', replace: 'false)' },
  { name: 'a server is used before the leases on the other are over', find: 'AWAY = LEASE', replace: 'AWAY = 0' },

  // Of the turns of a process.
  { name: 'a grant reserves no tokens', find: 'max(s.last + TOKENS, 10 * t)', replace: 'max(s.last + 1, 10 * t)' },
  { name: 'the lock is handed on without a token', find: 'c.handedOn < TOKENS - 1,', replace: 'true,' },
  {
    name: 'a call has the token of the one before',
    find: 'tokens.append(c.token + c.handedOn)',
    replace: 'tokens.append(c.token)',
  },
  {
    name: 'the lock is handed on after its lease',
    find: '2 * (c.until - now) >= c.proven,',
    replace: 'true,',
  },
  {
    name: 'the lock is handed on up to the end of its lease',
    find: '2 * (c.until - now) >= c.proven,',
    replace: 'c.until > now,',
  },
  {
    name: 'the lock is handed on after a renewal',
    find: 'c.renewedAt == c.sentAt,',
    replace: 'true,',
  },
  {
    name: 'the lock is handed on after an acquire without an answer',
    find: 'not(isUnanswered(c, net)),',
    replace: 'true,',
  },
  { name: 'a turn does not end', find: 'now < c.grantedAt + turn,\n      c.handedOn', replace: 'true, c.handedOn' },
  { name: 'a turn serves all that come', find: 'c.busyAt == 0 or call <= c.came,', replace: 'true,' },
  {
    name: 'the last call is handed the lock',
    find: 'val heir = { ...c, phase: "held", call: calls[0],',
    replace: 'val heir = { ...c, phase: "held", call: calls[calls.length() - 1],',
  },
  {
    name: 'a call that comes waits before the others',
    find: 'waiting.get(process).append(call)',
    replace: '[call].concat(waiting.get(process))',
  },
  {
    name: 'a call asks although others of its process wait',
    find: 'waiting.get(process).length() > 0,\n        clientsOf',
    replace: 'false, clientsOf',
  },
  {
    name: 'a call asks although another one of its process asks',
    find: 'clientsOf(process).exists(isContender),',
    replace: 'false,',
  },
  {
    name: 'a call asks although its process hands the lock on',
    find: 'clientsOf(process).exists(isUnderWay),',
    replace: 'false,',
  },
  { name: 'nobody asks at the end of a hold', find: 'if (isNext) becomeOf(', replace: 'if (false) becomeOf(' },
  {
    name: 'two calls of a process ask at the end of a hold',
    find: 'calls.length() > 0 and not(isContender(otherOf(id))) and',
    replace: 'calls.length() > 0 and',
  },
  {
    name: 'two calls of a process ask at the end of a turn',
    find: 'not(isContender(otherOf(i))),',
    replace: 'true,',
  },
  {
    name: 'the next call asks while the turn goes on',
    find: 'not(isUnderWay(otherOf(i))),',
    replace: 'true,',
  },
  {
    name: 'a cancelled call leaves nobody that asks',
    find: 'if (calls.length() > 0) becomeOf(id, { ...c, call: calls[0] }, calls.tail(), net, "succeeded")',
    replace: 'if (false) become(id, c, net, "succeeded")',
  },
];
