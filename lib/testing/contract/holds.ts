import { TOKENS_OF_A_WRITER } from '../../core/store/lock-store.js';
import { type Hold, HOLDER, it, LONG_MS, needing, type PortCase, promised, same, SHORT_MS } from './kit.js';

function checkRising(holds: readonly Hold[]): void {
  const tokens = holds.map(({ fencingToken }) => fencingToken);
  promised(
    tokens.every((token) => Number.isSafeInteger(token) && token > 0),
    'tokens to be safe integers above 0',
    tokens,
  );
  promised(
    tokens.every((token, i) => i === 0 || token > tokens[i - 1]!),
    'each token to exceed the last one',
    tokens,
  );
}

const OWNER = { owner: 'job 7' };

const MINIMUM_MS = 1_500;

export const HOLDS: readonly PortCase[] = [
  // Exclusion.
  it('a write hold excludes writers, including those of the same client', async (_scene, a, b) => {
    await a.granted('the first writer');
    await a.busy('another writer of that client');
    await b.busy('a writer of another client');
  }),
  it('a write hold excludes readers', async (_scene, a, b) => {
    await a.granted('the writer');
    await b.busy('a reader', { mode: 'read' });
  }),
  it('read holds exclude writers until the last reader releases', async (_scene, a, b, c) => {
    const first = await a.granted('the reader', { mode: 'read' });
    const second = await b.granted('another reader', { mode: 'read' });
    await c.busy('a writer');
    await a.release(first);
    await c.busy('a writer, while one reader is left,');
    await b.release(second);
    await c.eventuallyGranted('a writer');
  }),
  it('at most one of many concurrent writers is granted', async (_scene, a, b, c) => {
    const clients = [a, b, c];
    const sent = [...clients, ...clients, ...clients].map((client) => client.send(client.requestOf({})));
    const replies = (await Promise.allSettled(sent)).map((one) => (one.status === 'fulfilled' ? one.value : undefined));
    const granted = replies.filter((reply) => reply?.outcome === 'granted');
    promised(granted.length <= 1, 'at most one of nine to be granted', granted);
  }),
  it('keys that differ in one character are different locks', async (scene, a) => {
    const keys = ['a', 'A', 'a ', '{a}', '%7Ba%7D', 'á', 'a:b', 'a\n', '*', '?'].map((name) => scene.prefix + name);
    for (const key of keys) await a.granted(`the lock ${JSON.stringify(key)}`, { keys: [key] });
  }),
  it('a busy reply reports nothing false about the holder', async (scene, a, b) => {
    const { attempt, serverTimeMs, ...hold } = await a.granted('the writer');
    const busy = await b.busy('another writer');
    promised(busy.retryMs >= 0 && busy.retryMs <= LONG_MS, '`retryMs` to be within the lease', busy);
    promised([undefined, HOLDER].includes(busy.holder), '`holder` to be the text of the holder', busy);
    promised([undefined, attempt].includes(busy.owner), '`owner` to be the attempt that writes', busy);
    scene.notBefore('`serverTimeMs` of a later reply', serverTimeMs, busy);
    await a.release({ attempt, serverTimeMs, ...hold });
    await a.granted('a reader', { mode: 'read' });
    const { owner } = await b.busy('a writer');
    promised(!owner, '`owner` to be empty without a writer', owner);
  }),
  // Fencing tokens.
  it('fencing tokens rise with every grant, across clients and modes', async (_scene, a, b) => {
    const holds: Hold[] = [];
    for (const mode of ['write', 'read', 'write', 'write', 'read', 'write'] as const) {
      const client = holds.length % 2 === 0 ? a : b;
      const hold = await client.eventuallyGranted('a request for a free lock', { mode });
      holds.push(hold);
      await client.release(hold);
    }
    checkRising(holds);
  }),
  it('readers that are granted one after another get rising fencing tokens', async (_scene, a, b, c) => {
    const holds: Hold[] = [];
    for (const client of [a, b, c]) holds.push(await client.granted('a reader', { mode: 'read' }));
    checkRising(holds);
  }),
  it('a grant for writing reserves the tokens after its own, if the store has `reservesTokens`', async (_scene, a, b) => {
    const reserved = a.store.reservesTokens ? TOKENS_OF_A_WRITER : 1;
    for (const next of [{}, { mode: 'read' }] as const) {
      const hold = await a.eventuallyGranted('the writer');
      await a.release(hold);
      const { fencingToken, ...rest } = await b.eventuallyGranted('the next', next);
      const least = hold.fencingToken + reserved;
      promised(fencingToken >= least, `a token of at least ${least}`, fencingToken);
      await b.release({ ...rest, fencingToken });
    }
  }),
  it('a grant after a lease that ended has a greater fencing token', async (_scene, a, b) => {
    const dead = await a.granted('the first', { leaseMs: SHORT_MS });
    checkRising([dead, await b.eventuallyGranted('the next')]);
  }),
  it('a release and a lost renewal report the last fencing token of the lock', async (scene, a, b) => {
    const first = await a.granted('the first');
    const { lastToken } = await a.release(first);
    scene.lastToken(lastToken, first.fencingToken);
    const second = await b.eventuallyGranted('the second');
    const lost = await a.renew(first);
    promised(lost.outcome === 'lost', 'the renewal to be lost', lost);
    scene.lastToken(lost.lastToken, second.fencingToken);
  }),
  // Acquisitions that share a lock by the name of their owner.
  it('an owner that writes re-enters its lock with the same fencing token, on any client', async (_scene, a, b, c) => {
    const outer = await a.granted('the owner', OWNER);
    const writing = await b.granted('the owner, for writing,', OWNER);
    const reading = await b.granted('the owner, for reading,', { ...OWNER, mode: 'read' });
    same([writing.fencingToken, reading.fencingToken], [outer.fencingToken, outer.fencingToken], 'the tokens');
    await c.busy('another owner', { owner: 'job 8' });
    await c.busy('an attempt without an owner');
  }),
  it('each hold of an owner is released separately', async (scene, a, b, c) => {
    const outer = await a.granted('the owner', OWNER);
    const inner = await b.granted('the owner, again,', OWNER);
    scene.holdsLeft(await a.release(outer), 1);
    await c.busy('another caller');
    await b.keeps(inner);
    scene.holdsLeft(await b.release(inner), 0);
    await c.eventuallyGranted('another caller');
  }),
  it('an owner that reads re-enters for reading with the same fencing token', async (_scene, a, b) => {
    const outer = await a.granted('the owner', { ...OWNER, mode: 'read' });
    const inner = await b.granted('the owner, again,', { ...OWNER, mode: 'read' });
    same(inner.fencingToken, outer.fencingToken, 'the token');
  }),
  it('an owner that reads is refused for writing, and keeps reading', async (_scene, a, b) => {
    const reading = await a.granted('the owner', { ...OWNER, mode: 'read' });
    await b.refused('the owner, for writing,', 'upgrade', OWNER);
    await a.keeps(reading);
    await b.granted('another reader', { mode: 'read' });
  }),
  it('owners that differ in one character are different owners, and differ from a missing owner', async (_scene, a, b) => {
    await a.granted('the owner', { owner: '-' });
    const others = ['%2D', '%2d', ' -', '- ', '--', '–'];
    for (const owner of others) await b.busy(`the owner ${JSON.stringify(owner)}`, { owner });
    await b.busy('an attempt without an owner');
    await b.granted('the owner, again,', { owner: '-' });
  }),
  // An acquire that is sent again, or late.
  it('an acquire that arrives after the release of its attempt is refused, and locks nothing', async (_scene, a, b) => {
    const hold = await a.granted('the attempt');
    await a.release(hold);
    await a.refused('the same attempt', 'released', hold.request);
    await b.eventuallyGranted('the next');
    await a.refused('the same attempt, while another holds the lock,', 'released', hold.request);
  }),
  it('an acquire that arrives after its own release is refused', async (_scene, a) => {
    const attempt = a.nextAttempt();
    const { outcome } = await a.giveBack(attempt);
    same(outcome, 'unknown', 'the outcome of a release of nothing');
    await a.refused('the attempt', 'released', { attempt });
  }),
  // The end of a hold.
  it('a release frees the lock at once', async (scene, a, b) => {
    const hold = await a.granted('the holder');
    const reply = await a.release(hold);
    same(reply.outcome, 'released', 'the outcome');
    scene.holdsLeft(reply, 0);
    await b.eventuallyGranted('the next');
  }),
  it('a release that is sent again returns `again`, and does not touch the next holder', async (scene, a, b, c) => {
    const first = await a.granted('the first');
    await a.release(first);
    same((await a.release(first)).outcome, 'again', 'the outcome while the lock is free');
    const second = await b.eventuallyGranted('the second');
    const again = await a.release(first);
    same(again.outcome, 'again', 'the outcome while another holds the lock');
    scene.holdsLeft(again, 1);
    await c.busy('a third');
    await b.keeps(second);
  }),
  it('a release that states that it is a repetition, and finds nothing, proves no loss', async (_scene, a) => {
    const attempt = a.nextAttempt();
    for (const expected of ['unknown', 'again']) {
      const { outcome } = await a.giveBack(attempt, { isRepeated: true });
      promised(outcome === expected || outcome === 'unknown', `it to be \`${expected}\` or \`unknown\``, outcome);
    }
  }),
  it('a release by another attempt changes nothing', async (scene, a, b) => {
    const hold = await a.granted('the holder');
    for (const attempt of [b.nextAttempt(), a.nextAttempt()]) {
      const reply = await b.giveBack(attempt);
      same(reply.outcome, 'unknown', 'the outcome');
      scene.holdsLeft(reply, 1);
    }
    await b.busy('another caller');
    await a.keeps(hold);
  }),
  it('the release of one reader leaves the others, and reports how many remain', async (scene, a, b, c) => {
    const first = await a.granted('a reader', { mode: 'read' });
    const second = await b.granted('another reader', { mode: 'read' });
    scene.holdsLeft(await a.release(first), 1);
    await c.busy('a writer');
    await b.keeps(second);
  }),
  it('the release of a hold whose lease has ended does not free the lock of the next holder', async (_scene, a, b, c) => {
    const dead = await a.granted('the first', { leaseMs: SHORT_MS });
    await b.eventuallyGranted('the next');
    const { outcome } = await a.release(dead);
    promised(['expired', 'unknown'].includes(outcome), 'it to be `expired` or `unknown`', outcome);
    await c.busy('a third');
  }),
  // Leases: how they end, and how they are renewed.
  it('a lock is free when its lease ends, and not before', async (scene, a, b) => {
    const dead = await a.granted('the first', { leaseMs: SHORT_MS });
    promised(dead.remainingMs > 0 && dead.remainingMs <= SHORT_MS, 'the grant to report its lease', dead.remainingMs);
    const next = await b.eventuallyGranted('the next');
    scene.notBefore('the lease', dead.serverTimeMs + dead.remainingMs, next);
  }),
  it('a renewal extends the lease to the requested length', async (_scene, a, b) => {
    const hold = await a.granted('the holder', { leaseMs: 3_000 });
    const renewed = await a.renew(hold, LONG_MS);
    const isLong = renewed.outcome === 'renewed' && renewed.remainingMs > 3_000 && renewed.remainingMs <= LONG_MS;
    promised(isLong, 'the renewal to report the longer lease', renewed);
    await b.busyUntil(hold.serverTimeMs + 3_200, 'another caller');
  }),
  it('a renewal never shortens a lease', async (_scene, a) => {
    const renewed = await a.renew(await a.granted('the holder'), SHORT_MS);
    promised(renewed.outcome === 'renewed' && renewed.remainingMs > SHORT_MS, 'the longer lease', renewed);
  }),
  it('renew() returns its replies in the order of its requests', async (scene, a) => {
    const keys = ['a', 'b', 'c'].map((name) => scene.prefix + name);
    const holds = [];
    for (const key of keys) holds.push(await a.granted(`the lock ${key}`, { keys: [key] }));
    await a.release(holds[1]!);
    const requests = holds.map(({ key, attempt, fencingToken, request: { mode, owner, holder } }) => {
      return { key, attempt, fencingToken, mode, owner, holder, leaseMs: LONG_MS, timeoutMs: 5_000 };
    });
    const replies = await scene.time.until('all renewals to be answered', async () => {
      const all = await a.store.renew(requests);
      return all.some(({ outcome }) => outcome === 'unknown') ? undefined : all;
    });
    same(
      replies.map(({ outcome }) => outcome),
      ['renewed', 'lost', 'renewed'],
      'the outcomes',
    );
    same(await a.store.renew([]), [], 'the outcomes of no renewals');
  }),
  it('a renewal with another fencing token is lost, and changes nothing', async (_scene, a) => {
    const hold = await a.granted('the holder');
    for (const by of [-1, 1]) {
      const reply = await a.renew({ ...hold, fencingToken: hold.fencingToken + by });
      promised(reply.outcome === 'lost' && !reply.revoked, 'it to be lost', reply);
    }
    await a.keeps(hold);
  }),
  it('a renewal by another attempt is lost, and reports the last fencing token', async (scene, a, b) => {
    const hold = await a.granted('the holder');
    const reply = await b.renew({ ...hold, attempt: b.nextAttempt() });
    promised(reply.outcome === 'lost', 'it to be lost', reply);
    scene.lastToken(reply.lastToken, hold.fencingToken);
  }),
  it('a hold whose lease has ended is never brought back', async (scene, a, b) => {
    const dead = await a.granted('the first', { leaseMs: SHORT_MS });
    await scene.leaseEnds(b);
    const lost = await a.renew(dead);
    promised(lost.outcome === 'lost', 'the renewal to be lost', lost);
    scene.lastToken(lost.lastToken, dead.fencingToken);
    const next = await b.eventuallyGranted('the next');
    same((await a.renew(dead)).outcome, 'lost', 'the outcome of another renewal');
    promised(next.fencingToken > dead.fencingToken, 'the next to have a greater token', next);
  }),
  it('a renewal after the release is lost, but not revoked', async (_scene, a) => {
    const hold = await a.granted('the holder');
    await a.release(hold);
    await a.lost(hold);
  }),
  // A lock that stays taken for a minimum time.
  it('a release with `holdAtLeastMs` keeps the lock taken until that long after the grant, and no longer', async (scene, a, b) => {
    const hold = await a.granted('the holder');
    same((await a.release(hold, { holdAtLeastMs: MINIMUM_MS })).outcome, 'released', 'the outcome');
    const next = await b.eventuallyGranted('the next');
    scene.notBefore('the minimum', hold.serverTimeMs + MINIMUM_MS, next);
  }),
  it('a hold that was released with `holdAtLeastMs` has no owner', async (_scene, a, b) => {
    const hold = await a.granted('the owner', { owner: 'job 7' });
    await a.release(hold, { holdAtLeastMs: 20_000 });
    same((await a.renew(hold)).outcome, 'lost', 'the outcome of a renewal');
    same((await a.release(hold, { holdAtLeastMs: 20_000 })).outcome, 'again', 'the outcome of another release');
    await a.refused('the same attempt', 'released', hold.request);
    await b.busy('the same owner', { owner: 'job 7' });
    await b.busy('a reader', { mode: 'read' });
  }),
  it('inspect() reports a hold that was released with `holdAtLeastMs` with a fencing token of 0', async (scene, a) => {
    const hold = await a.granted('the holder');
    await a.release(hold, { holdAtLeastMs: 20_000 });
    const { mode, holders } = await a.store.inspect(scene.key);
    same([mode, holders.map(({ fencingToken }) => fencingToken)], ['write', [0]], 'the mode and the tokens');
    promised(holders[0]!.remainingMs <= 20_000, 'it to end by its minimum', holders);
  }),
  it('a release after its `holdAtLeastMs` has passed frees the lock at once', async (scene, a, b) => {
    const hold = await a.granted('the holder');
    await b.busyUntil(hold.serverTimeMs + 100 + scene.spreadMs, 'another caller');
    scene.holdsLeft(await a.release(hold, { holdAtLeastMs: 100 }), 0);
    await b.eventuallyGranted('the next');
  }),
  ...needing(['permits'])([
    // Exclusion.
    it('at most `permits` readers share a lock, and each request counts all of them', async (_scene, a, b, c) => {
      const first = await a.granted('the first of two readers', { mode: 'read', permits: 2 });
      await b.granted('the second of two readers', { mode: 'read', permits: 2 });
      await c.busy('a third of two readers', { mode: 'read', permits: 2 });
      await c.granted('a third of three readers', { mode: 'read', permits: 3 });
      await a.release(first);
      await a.busy('a third of two readers, again,', { mode: 'read', permits: 2 });
    }),
    // Acquisitions that share a lock by the name of their owner.
    it('each hold of an owner that reads counts as one reader', async (_scene, a, b) => {
      await a.granted('the owner', { ...OWNER, mode: 'read', permits: 2 });
      await b.granted('the owner, again,', { ...OWNER, mode: 'read', permits: 2 });
      await b.busy('the owner, a third time,', { ...OWNER, mode: 'read', permits: 2 });
    }),
  ]),
  ...needing(['queue'])([
    // Acquisitions that share a lock by the name of their owner.
    it('an owner that got several tokens for reading re-enters with the greatest', async (_scene, a, b, c) => {
      const fields = { owner: 'job 7', mode: 'read', waiterLeaseMs: LONG_MS } as const;
      const writing = await a.granted('the writer');
      const [first, second] = [await b.waits('a call of the owner', fields), await c.waits('another one', fields)];
      await a.release(writing);
      const holds = [
        await b.eventuallyGranted('the first', first.request),
        await c.eventuallyGranted('the second', second.request),
      ];
      const greatest = Math.max(...holds.map(({ fencingToken }) => fencingToken));
      await c.release(holds[1]!);
      const third = await a.granted('a third', { owner: 'job 7', mode: 'read' });
      same(third.fencingToken, greatest, 'the token of a third');
    }),
    // An acquire that is sent again, or late.
    it('an acquire that arrives after its attempt was cancelled is refused', async (_scene, a, b) => {
      const hold = await a.granted('the holder');
      const { request } = await b.waits('the waiter');
      await b.giveBack(request.attempt);
      await a.release(hold);
      await b.refused('the attempt', 'released', request);
      await a.granted('another caller');
    }),
    // The end of a hold.
    it('the release of a waiter removes it from the queue', async (scene, a, b) => {
      await a.granted('the holder');
      const { request } = await b.waits('the waiter');
      same((await b.giveBack(request.attempt)).outcome, 'cancelled', 'the outcome');
      same((await a.store.inspect(scene.key)).waiters, 0, 'the number of waiters');
    }),
  ]),
  ...needing(['sameGrant'])([
    // An acquire that is sent again, or late.
    it('an acquire that is sent again at once does not disturb its own hold', async (scene, a) => {
      // Some of several servers may grant while it is sent again: one try would rarely show it.
      for (let turn = 1; turn <= 30; turn += 1) {
        const hold = await a.granted(`turn ${turn}`, { keys: [`${scene.prefix}${turn}`] });
        const reply = await a.send(hold.request);
        promised(reply.outcome === 'granted', 'the same attempt to be granted', reply);
        same(reply.fencingTokens, hold.fencingTokens, 'the tokens');
        await a.keeps(hold);
      }
    }),
    it('an acquire that is sent again returns the same grant, which one release ends', async (scene, a, b) => {
      const first = await a.granted('the attempt');
      const second = await a.granted('the same attempt', first.request);
      same(second.fencingTokens, first.fencingTokens, 'the tokens');
      same((await b.store.inspect(scene.key)).holders.length, 1, 'the number of holders');
      scene.holdsLeft(await a.release(second), 0);
      await b.eventuallyGranted('the next');
    }),
    it('an acquire that is sent again extends the lease to the requested length, and never shortens it', async (_scene, a) => {
      const { request, remainingMs } = await a.granted('the attempt', { leaseMs: 10_000 });
      const longer = await a.granted('the same attempt, for longer,', { ...request, leaseMs: 20_000 });
      promised(longer.remainingMs > remainingMs, 'the lease to be longer', longer.remainingMs);
      const shorter = await a.granted('the same attempt, for shorter,', { ...request, leaseMs: SHORT_MS });
      promised(shorter.remainingMs > 10_000, 'the lease not to be shortened', shorter.remainingMs);
    }),
    it('an acquire that is sent again after a downgrade returns the same grant, for reading', async (_scene, a, b) => {
      const hold = await a.granted('the writer');
      await a.downgrade(hold);
      const again = await a.granted('the same attempt', hold.request);
      same(again.fencingTokens, hold.fencingTokens, 'the tokens');
      await b.granted('a reader', { mode: 'read' });
    }),
  ]),
  ...needing(['shortLeases'])([
    // Leases: how they end, and how they are renewed.
    it('a lease may last for one millisecond', async (scene, a, b) => {
      const dead = await a.granted('the first', { leaseMs: 1 });
      same(dead.remainingMs, 1, 'the lease of the grant');
      const next = await b.eventuallyGranted('the next');
      scene.notBefore('the lease', dead.serverTimeMs + 1, next);
      promised(next.fencingToken > dead.fencingToken, 'the next to have a greater token', next);
      same((await a.renew(dead)).outcome, 'lost', 'the outcome of a renewal by the first');
    }),
  ]),
];
