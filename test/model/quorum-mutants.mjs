// Each takes a rule from quorum.qnt; `find` stands once in it.

/** @type {readonly import('./models.mjs').Mutant[]} */
export const QUORUM_MUTANTS = [
  { name: 'half of the nodes is a majority', find: 'NODES.size() / 2 + 1', replace: 'NODES.size() / 2' },
  {
    name: 'no token is written back',
    find: 'filter(n => c.grants.get(n) == chosen.token) },',
    replace: 'filter(n => true) },',
  },
  {
    name: 'the token of any granting node is chosen',
    find: 'token: max(c.grants.keys().map(n => c.grants.get(n)))',
    replace: 'token: c.grants.keys().fold(1000000, (a, n) => if (c.grants.get(n) < a) c.grants.get(n) else a)',
  },
  {
    name: 'a node does not learn the token that is written back',
    find: 'last: max(Set(node.last, m.newToken))',
    replace: 'last: node.last',
  },
  {
    name: 'one node that wrote the token suffices',
    find: 'c.written.size() >= MAJORITY',
    replace: 'c.written.size() >= 1',
  },
  {
    name: 'a release ends the hold of any attempt',
    find: 'if (node.hold.attempt == m.attempt) NOBODY',
    replace: 'if (true) NOBODY',
  },
  {
    name: 'an attempt goes on after it was given back',
    find: `      if (isSpent or isCancelled)`,
    replace:
      '      if (isSpent) become(id, again, net.union(releases(id, c.attempt, net, now)).union(acquires(id, c.attempt, now)), "x")\n else if (isCancelled)',
  },
  {
    name: 'a lease counts from the write-back',
    find: 'phase: "held", until: c.sentAt + LEASE',
    replace: 'phase: "held", until: t + LEASE',
  },
  {
    name: 'a renewed lease counts from the answer',
    find: 'until: m.sentAt + LEASE, lostOn',
    replace: 'until: t + LEASE, lostOn',
  },
  {
    name: 'a renewal of one node suffices',
    find: 'answered.renewedOn.size() >= MAJORITY',
    replace: 'answered.renewedOn.size() >= 1',
  },
  { name: 'a node votes at once after it lost its data', find: 'AWAY = LEASE', replace: 'AWAY = 0' },
  { name: 'an old acquire is granted', find: 't - m.sentAt > MAX_AGE', replace: 'false' },
  {
    name: 'an attempt that was given back is forgotten',
    find: 'if (isGivenBack(node, m.attempt, t))',
    replace: 'if (false)',
  },
  {
    name: 'of attempts given back only the last is remembered',
    find: 'node.late.exists(one => one.attempt == attempt and t - one.at <= MAX_AGE),',
    replace: 'false',
  },
  {
    name: 'nobody tells that an acquire may arrive',
    find: 'mayArrive: sent.exists(m => m.kind == "acquire" and m.reply == "" and m.attempt == attempt and m.node == n)',
    replace: 'mayArrive: false',
  },
  {
    name: 'a renewal fits any attempt',
    find: 'if (isLive(node.hold, t) and node.hold.attempt == m.attempt and node.hold.token == m.token)',
    replace: 'if (isLive(node.hold, t))',
  },
  { name: 'a hold is taken after its lease', find: ' and t < c.sentAt + LEASE)', replace: ')' },
  {
    name: 'a release is sent once',
    find: 'become(m.client, c, if (isRetried(m)) net else rest, "lost")',
    replace: 'become(m.client, c, rest, "lost")',
  },
  { name: 'a token is the time', find: 'max(Set(node.last + 1, micros))', replace: 'micros' },
  { name: 'a token is the last one plus one', find: 'max(Set(node.last + 1, micros))', replace: 'node.last + 1' },
  { name: 'nobody is told that the lease is over', find: 'clients.get(i).until <= t)', replace: 'false)' },
];
