import { it, LONG_MS, needing, type PortCase, promised, same, SHORT_MS } from './kit.js';

export const HAND_OVER: readonly PortCase[] = [
  // From writing to reading, without a moment in which the lock is free.
  it('a downgrade lets readers in, and keeps writers out', async (_scene, a, b, c) => {
    const hold = await a.granted('the writer');
    await b.busy('a reader', { mode: 'read' });
    same((await a.downgrade(hold)).outcome, 'renewed', 'the outcome');
    await c.busy('another writer');
    await b.granted('a reader', { mode: 'read' });
  }),
  it('a downgraded hold keeps its fencing token and its lease', async (scene, a) => {
    const hold = await a.granted('the writer');
    await a.downgrade(hold);
    const { mode, holders } = await a.store.inspect(scene.key);
    same([mode, holders.map((holder) => holder.fencingToken)], ['read', [hold.fencingToken]], 'the mode and token');
    promised(holders[0]!.remainingMs > 20_000, 'the lease not to be shortened', holders[0]);
    await a.keeps(hold);
    await a.ends(hold);
  }),
  it('a downgrade that is sent again returns the same reply, and counts once', async (scene, a, b) => {
    const hold = await a.granted('the writer');
    for (const _ of ['first', 'second']) same((await a.downgrade(hold)).outcome, 'renewed', 'the outcome');
    scene.holdsLeft(await a.release(hold), 0);
    await b.eventuallyGranted('another writer');
  }),
  it('a downgrade of a hold that has ended, or with another token, is lost and changes nothing', async (scene, a, b) => {
    const gone = await a.granted('the first');
    await a.release(gone);
    const hold = await b.eventuallyGranted('the second');
    for (const wrong of [gone, { ...hold, fencingToken: hold.fencingToken + 1 }]) {
      const reply = await a.downgrade(wrong);
      promised(reply.outcome === 'lost' && !reply.revoked, 'it to be lost', reply);
      scene.lastToken(reply.lastToken, hold.fencingToken);
    }
    await a.busy('a reader', { mode: 'read' });
  }),
  it('a renewal in read mode makes up for a downgrade that did not arrive', async (scene, a, b, c) => {
    const hold = await a.granted('the writer');
    await a.renew({ ...hold, request: { ...hold.request, mode: 'read' } });
    await b.eventuallyGranted('a reader', { mode: 'read' });
    await c.busy('another writer');
    // A late renewal from before the downgrade changes nothing.
    await a.renew(hold);
    await c.eventuallyGranted('another reader', { mode: 'read' });
    const { mode, fencingToken } = await a.store.inspect(scene.key);
    promised(mode === 'read' && fencingToken >= hold.fencingToken, 'a lock that is read', { mode, fencingToken });
    await a.ends(hold);
  }),
  // A hold that another client adopts.
  ...needing(['adoption'])([
    it('an adopted hold keeps its fencing token, its owner, its mode and the time of its grant', async (scene, a, b, c) => {
      for (const mode of ['write', 'read'] as const) {
        const hold = await a.eventuallyGranted('the first', { mode, owner: 'the owner' });
        const before = await a.store.inspect(scene.key);
        const adopted = await b.adopted('the hold', hold);
        const { holders, ...state } = await a.store.inspect(scene.key);
        same([state.mode, state.fencingToken], [mode, hold.fencingToken], 'the mode and the last token');
        const [{ attempt, owner, fencingToken, since }] = holders as [(typeof holders)[number]];
        same([attempt, owner, fencingToken], [adopted.attempt, 'the owner', hold.fencingToken], 'the holder');
        scene.sameTime(since.getTime(), before.holders[0]!.since.getTime(), 'the time of its grant');
        await c.busy('another writer');
        await b.ends(adopted);
      }
    }),
    it('an adopted hold names its new holder', async (scene, a, b) => {
      for (const mode of ['write', 'read'] as const) {
        const hold = await a.eventuallyGranted('the first', { mode });
        const adopted = await b.adopted('the hold', hold, { holder: 'host-2:7 Worker.run' });
        await scene.reports('the holder', ['host-2', 7, 'Worker.run'], async () => {
          const [holder] = (await a.store.inspect(scene.key)).holders;
          return [holder?.host, holder?.pid, holder?.where];
        });
        await b.release(adopted);
      }
    }),
    it('an adoption extends the lease, and never shortens it', async (scene, a, b, c) => {
      const hold = await a.granted('the first', { leaseMs: 2_000 });
      const adopted = await b.adopted('the hold', hold);
      await scene.time.pass(2_500);
      await c.busy('another writer');
      const again = await c.adopted('the hold', adopted, { leaseMs: SHORT_MS });
      promised(again.remainingMs > SHORT_MS, 'the lease not to be shortened', again.remainingMs);
    }),
    it('a hold can be adopted once', async (scene, a, b, c) => {
      const hold = await a.granted('the first');
      const adopted = await b.adopted('the hold', hold);
      const second = await c.adopt(hold);
      promised(second.outcome === 'lost' && !second.revoked, 'a second adoption to be lost', second);
      scene.lastToken(second.lastToken, hold.fencingToken);
      await b.keeps(adopted);
    }),
    it('an adoption that is sent again returns the same reply, and counts once', async (scene, a, b, c) => {
      const hold = await a.granted('the first');
      const attempt = b.nextAttempt();
      const adopted = await b.adopted('the hold', hold, { attempt });
      await b.adopted('the hold, again,', hold, { attempt });
      scene.holdsLeft(await b.release(adopted), 0);
      await c.eventuallyGranted('another writer');
    }),
    it('commands of the first attempt after the adoption change nothing', async (scene, a, b, c) => {
      const hold = await a.granted('the first');
      const adopted = await b.adopted('the hold', hold);
      await a.lost(hold);
      same((await a.downgrade(hold)).outcome, 'lost', 'the outcome of a late downgrade');
      const { outcome } = await a.release(hold);
      // One of several servers may learn late that the first attempt is over.
      promised(outcome === 'again' || scene.spreadMs > 0, 'a late release to end nothing', outcome);
      await a.refused('a late acquire', 'released', hold.request);
      await c.busy('another writer');
      await b.keeps(adopted);
      await b.ends(adopted);
      await a.refused('a later acquire', 'released', hold.request);
    }),
    it('a hold that has ended, or with another token, cannot be adopted', async (_scene, a, b) => {
      const gone = await a.granted('the first');
      await a.release(gone);
      const hold = await a.eventuallyGranted('the second');
      for (const wrong of [gone, { ...hold, fencingToken: hold.fencingToken + 1 }]) {
        const reply = await b.adopt(wrong);
        promised(reply.outcome === 'lost' && !reply.revoked, 'it to be lost', reply);
      }
      await a.keeps(hold);
    }),
    it('a hold whose lease is over cannot be adopted', async (scene, a, b) => {
      const hold = await a.granted('the first', { leaseMs: SHORT_MS });
      await scene.leaseEnds(a);
      same((await b.adopt(hold)).outcome, 'lost', 'the outcome');
    }),
    it('an attempt that was given back adopts nothing', async (_scene, a, b) => {
      const hold = await a.granted('the first');
      for (const unanswered of [false, true]) {
        const attempt = b.nextAttempt();
        await b.giveBack(attempt, { unanswered });
        same((await b.adopt(hold, { attempt })).outcome, 'lost', 'the outcome');
      }
      await a.keeps(hold);
      await b.adopted('the hold', hold);
    }),
    it('an acquire of the first attempt without an answer is refused long after the adoption', async (_scene, a, b) => {
      const hold = await a.granted('the first');
      const adopted = await b.adopted('the hold', hold, { unanswered: true });
      await b.release(adopted);
      for (let others = 0; others < 9; others += 1) {
        await b.release(await b.eventuallyGranted('another one'));
      }
      await a.refused('a late acquire', 'released', hold.request);
    }),
    it('an adopted hold that an operator revokes is lost', async (scene, a, b, c) => {
      const hold = await a.granted('the first');
      const adopted = await b.adopted('the hold', hold);
      await c.store.forceRelease(scene.key);
      const renewed = await b.renew(adopted);
      promised(renewed.outcome === 'lost' && renewed.revoked, 'it to be revoked', renewed);
    }),
    it('a hold that an operator revokes cannot be adopted', async (scene, a, b) => {
      const hold = await a.granted('the first');
      await b.store.forceRelease(scene.key);
      const reply = await b.adopt(hold);
      promised(reply.outcome === 'lost' && reply.revoked, 'it to be revoked', reply);
    }),
  ]),
  // An operator revokes the holds of a lock.
  it('a revocation ends all holds, and reports whether there were any', async (scene, a, b, c) => {
    same(await c.store.forceRelease(scene.key), false, 'the answer for a lock that was never held');
    for (const client of [a, b]) await client.granted('a reader', { mode: 'read' });
    same(await c.store.forceRelease(scene.key), true, 'the answer');
    await scene.reports('the answer to another revocation', false, () => c.store.forceRelease(scene.key));
    await c.eventuallyGranted('a writer');
  }),
  it('a revocation up to a token spares later holders', async (scene, a, b, c) => {
    const first = await a.granted('the first');
    const { fencingToken: seen } = await c.store.inspect(scene.key);
    await a.release(first);
    const next = await b.eventuallyGranted('the next');
    await scene.reports('the answer for a former holder', false, () => c.store.forceRelease(scene.key, seen));
    same((await b.renew(next)).outcome, 'renewed', 'the outcome of a renewal by the later holder');
    const { fencingToken: last } = await c.store.inspect(scene.key);
    same(await c.store.forceRelease(scene.key, last), true, 'the answer for the present holder');
  }),
  it('a revoked holder learns of it from its renewal, its release and its acquire', async (scene, a, b) => {
    const hold = await a.granted('the holder');
    await b.store.forceRelease(scene.key);
    const lost = await a.renew(hold);
    promised(lost.outcome === 'lost' && lost.revoked, 'the renewal to be lost and revoked', lost);
    same((await a.downgrade(hold)).outcome, 'lost', 'the outcome of a downgrade');
    await a.refused('the same attempt', 'released', hold.request);
    same((await a.release(hold)).outcome, 'revoked', 'the outcome of the release');
    await b.eventuallyGranted('another caller');
  }),
  it('waiters keep waiting after a revocation, and the next one is served', async (scene, a, b, c) => {
    const hold = await a.granted('the holder');
    const { request } = await b.waits('the waiter');
    same(await c.store.forceRelease(scene.key), true, 'the answer');
    const next = await b.eventuallyGranted('the waiter', request);
    promised(next.fencingToken > hold.fencingToken, 'a greater token', next.fencingToken);
    same((await a.renew(hold)).outcome, 'lost', 'the outcome of a renewal by the earlier holder');
  }),
  it('a revocation also ends a hold that was released with `holdAtLeastMs`', async (scene, a, b) => {
    await a.release(await a.granted('the holder'), { holdAtLeastMs: 20_000 });
    same(await b.store.forceRelease(scene.key), true, 'the answer');
    await b.eventuallyGranted('the next');
  }),
  it('a revocation also ends a re-entry that was released with `holdAtLeastMs`', async (scene, a, b) => {
    const owner = { owner: 'job 7' };
    const first = await a.granted('the owner', owner);
    // A re-entry has the token of the first grant, and a later time.
    await scene.time.pass(20);
    await a.release(await a.granted('the owner, again,', owner), { holdAtLeastMs: 20_000 });
    await a.release(first);
    same(await b.store.forceRelease(scene.key), true, 'the answer');
    await b.eventuallyGranted('the next');
  }),
  ...needing(['wakeUps'])([
    // A hold that another client adopts.
    it('an operator who revokes an adopted hold reaches its new holder', async (scene, a, b, c) => {
      const adopted = await b.adopted('the hold', await a.granted('the first'));
      await c.store.forceRelease(scene.key);
      same((await b.hears('the new holder', adopted.attempt)).kind, 'revoked', 'the message');
    }),
    // An operator revokes the holds of a lock.
    it('a revocation sends `revoked` to each holder', async (scene, a, b, c) => {
      const holds = [];
      for (const client of [a, b]) holds.push([client, await client.granted('a reader', { mode: 'read' })] as const);
      await c.store.forceRelease(scene.key);
      for (const [client, { attempt }] of holds) {
        same((await client.hears('a holder', attempt)).kind, 'revoked', 'the message of a holder');
      }
    }),
  ]),
  ...needing(['queue', 'wakeUps'])([
    // From writing to reading, without a moment in which the lock is free.
    it('a downgrade serves the readers at the head of the queue', async (_scene, a, b, c) => {
      const hold = await a.granted('the writer');
      const reader = await b.waits('a reader', { mode: 'read' });
      const writer = await c.waits('another writer');
      await a.downgrade(hold);
      await b.hears('the reader', reader.request.attempt);
      await b.eventuallyGranted('the reader', reader.request);
      await c.busy('the other writer', writer.request);
    }),
    // A hold that another client adopts.
    it('waiters continue to wait while a hold is adopted, and are served when it is released', async (_scene, a, b, c) => {
      const hold = await a.granted('the first');
      const waiter = await c.waits('a waiter', { leaseMs: LONG_MS });
      const adopted = await b.adopted('the hold', hold);
      await c.waits('the waiter', waiter.request);
      same(c.heard.length, 0, 'the number of messages');
      await b.release(adopted);
      await c.hears('the waiter', waiter.request.attempt);
      await c.eventuallyGranted('the waiter', waiter.request);
    }),
  ]),
];
