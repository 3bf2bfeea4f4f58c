// Each takes a rule from hand-over.qnt; `find` stands once in it.

/** @type {readonly import('./models.mjs').Mutant[]} */
export const HAND_OVER_MUTANTS = [
  {
    name: 'a pushed lease counts from its arrival',
    find: 'min(c.busyAt, t) + WAITER_LEASE',
    replace: 't + WAITER_LEASE',
  },
  {
    name: 'a pushed lease counts as a full one',
    find: 'min(c.busyAt, t) + WAITER_LEASE',
    replace: 'min(c.busyAt, t) + LEASE',
  },
  { name: 'a push of an earlier token counts', find: ' and m.token > c.lastToken', replace: '' },
  {
    name: 'a push of an earlier attempt counts',
    find: 'if (m.attempt != c.attempt) c',
    replace: 'if (m.attempt != c.attempt and m.kind != "push") c',
  },
  {
    name: 'a push counts before the first answer',
    find: 'if (c.busyAt > 0 and isNew) hold(c, m, min(c.busyAt, t)',
    replace: 'if (isNew or c.busyAt == 0) hold(c, m, min(c.sentAt, t)',
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
    find: 'val mayArrive = sent.exists(m => m.kind == "acquire" and m.reply == "" and m.attempt == c.attempt)',
    replace: 'val mayArrive = false',
  },
  {
    name: 'a lease counts from the answer',
    find: 'hold(c, m, c.sentAt + LEASE, t)',
    replace: 'hold(c, m, t + LEASE, t)',
  },
  { name: 'an answer to an earlier command counts', find: ' and m.sentAt == c.sentAt)', replace: ')' },
  {
    name: 'a renewed lease counts from the answer',
    find: 'max(c.until, m.sentAt + LEASE)',
    replace: 'max(c.until, t + LEASE)',
    samples: 5_000,
  },
  {
    name: 'a pushed grant has the last token',
    find: 'val token = max(s.last + 1, 10 * t)',
    replace: 'val token = if (lease == LEASE) max(s.last + 1, 10 * t) else s.last',
  },
  { name: 'a token is the last one plus one', find: 'max(s.last + 1, 10 * t)', replace: 's.last + 1' },
  { name: 'a token is the time', find: 'max(s.last + 1, 10 * t)', replace: '10 * t' },
  {
    name: 'a cancelled call gives nothing back',
    find: 'become(id, IDLE, net.union(releaseOf(id, c, master, net, now)), "left")',
    replace: 'become(id, IDLE, if (c.phase == "held") net.union(releaseOf(id, c, master, net, now)) else net, "left")',
  },
  {
    name: 'a release is sent once',
    find: 'become(m.client, c, if (isRetried(m)) net else rest, "lost")',
    replace: 'become(m.client, c, rest, "lost")',
  },
  { name: 'nobody is told that the lease is over', find: 'clients.get(i).until <= t)', replace: 'false)' },
  { name: 'a server is used before the leases on the other are over', find: 'AWAY = LEASE', replace: 'AWAY = 0' },
];
