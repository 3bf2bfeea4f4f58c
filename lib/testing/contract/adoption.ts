import { type PortCase } from './kit/port-case.js';
import { LONG_MS, SHORT_MS } from './kit/client.js';
import { promised, same } from './kit/promised.js';

/** A hold that another client goes on with. */
export const ADOPTION: readonly PortCase[] = [
  {
    name: 'an adopted hold keeps its fencing token, its owner, its mode and the time of its grant',
    async run(scene) {
      const [a, b, c] = await scene.clients();
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
        same((await b.release(adopted)).outcome, 'released', 'the outcome of its release');
      }
    },
  },
  {
    name: 'an adopted hold names its new holder',
    async run(scene) {
      const [a, b] = await scene.clients();
      for (const mode of ['write', 'read'] as const) {
        const hold = await a.eventuallyGranted('the first', { mode });
        const adopted = await b.adopted('the hold', hold, { holder: 'host-2:7 Worker.run' });
        await scene.reports('the holder', ['host-2', 7, 'Worker.run'], async () => {
          const [holder] = (await a.store.inspect(scene.key)).holders;
          return [holder?.host, holder?.pid, holder?.where];
        });
        await b.release(adopted);
      }
    },
  },
  {
    name: 'an adoption extends the lease, and never shortens it',
    async run(scene) {
      const [a, b, c] = await scene.clients();
      const hold = await a.granted('the first', { leaseMs: 2_000 });
      const adopted = await b.adopted('the hold', hold);
      await scene.time.pass(2_500);
      await c.busy('another writer');
      const again = await c.adopted('the hold', adopted, { leaseMs: SHORT_MS });
      promised(again.remainingMs > SHORT_MS, 'the lease not to be shortened', again.remainingMs);
    },
  },
  {
    name: 'a hold can be adopted once',
    async run(scene) {
      const [a, b, c] = await scene.clients();
      const hold = await a.granted('the first');
      const adopted = await b.adopted('the hold', hold);
      const second = await c.adopt(hold);
      promised(second.outcome === 'lost' && !second.revoked, 'a second adoption to be lost', second);
      scene.lastToken(second.lastToken, hold.fencingToken);
      same((await b.renew(adopted)).outcome, 'renewed', 'the outcome of a renewal');
    },
  },
  {
    name: 'an adoption that is sent again returns the same reply, and counts once',
    async run(scene) {
      const [a, b, c] = await scene.clients();
      const hold = await a.granted('the first');
      const attempt = b.nextAttempt();
      const adopted = await b.adopted('the hold', hold, { attempt });
      await b.adopted('the hold, again,', hold, { attempt });
      scene.holdsLeft(await b.release(adopted), 0);
      await c.eventuallyGranted('another writer');
    },
  },
  {
    name: 'what the first attempt still sends after the adoption changes nothing',
    async run(scene) {
      const [a, b, c] = await scene.clients();
      const hold = await a.granted('the first');
      const adopted = await b.adopted('the hold', hold);
      const renewed = await a.renew(hold);
      promised(renewed.outcome === 'lost' && !renewed.revoked, 'a late renewal to be lost', renewed);
      same((await a.downgrade(hold)).outcome, 'lost', 'the outcome of a late downgrade');
      const { outcome } = await a.release(hold);
      // One of several servers may learn late that the first attempt is over.
      promised(outcome === 'again' || scene.spreadMs > 0, 'a late release to end nothing', outcome);
      await a.refused('a late acquire', 'released', hold.request);
      await c.busy('another writer');
      same((await b.renew(adopted)).outcome, 'renewed', 'the outcome of a renewal');
      same((await b.release(adopted)).outcome, 'released', 'the outcome of its release');
      await a.refused('a later acquire', 'released', hold.request);
    },
  },
  {
    name: 'a hold that has ended, or with another token, cannot be adopted',
    async run(scene) {
      const [a, b] = await scene.clients();
      const gone = await a.granted('the first');
      await a.release(gone);
      const hold = await a.eventuallyGranted('the second');
      for (const wrong of [gone, { ...hold, fencingToken: hold.fencingToken + 1 }]) {
        const reply = await b.adopt(wrong);
        promised(reply.outcome === 'lost' && !reply.revoked, 'it to be lost', reply);
      }
      same((await a.renew(hold)).outcome, 'renewed', 'the outcome of a renewal');
    },
  },
  {
    name: 'a hold whose lease is over cannot be adopted',
    async run(scene) {
      const [a, b] = await scene.clients();
      const hold = await a.granted('the first', { leaseMs: SHORT_MS });
      await scene.leaseEnds(a);
      same((await b.adopt(hold)).outcome, 'lost', 'the outcome');
    },
  },
  {
    name: 'an attempt that was given back adopts nothing',
    async run(scene) {
      const [a, b] = await scene.clients();
      const hold = await a.granted('the first');
      for (const unanswered of [false, true]) {
        const attempt = b.nextAttempt();
        await b.giveBack(attempt, { unanswered });
        same((await b.adopt(hold, { attempt })).outcome, 'lost', 'the outcome');
      }
      same((await a.renew(hold)).outcome, 'renewed', 'the outcome of a renewal');
      await b.adopted('the hold', hold);
    },
  },
  {
    name: 'an acquire of the first attempt without an answer is refused long after the adoption',
    async run(scene) {
      const [a, b] = await scene.clients();
      const hold = await a.granted('the first');
      const adopted = await b.adopted('the hold', hold, { unanswered: true });
      await b.release(adopted);
      for (let others = 0; others < 9; others += 1) {
        await b.release(await b.eventuallyGranted('another one'));
      }
      await a.refused('a late acquire', 'released', hold.request);
    },
  },
  {
    name: 'an adopted hold that an operator revokes is lost',
    async run(scene) {
      const [a, b, c] = await scene.clients();
      const hold = await a.granted('the first');
      const adopted = await b.adopted('the hold', hold);
      await c.store.forceRelease(scene.key);
      const renewed = await b.renew(adopted);
      promised(renewed.outcome === 'lost' && renewed.revoked, 'it to be revoked', renewed);
    },
  },
  {
    name: 'a hold that an operator revokes cannot be adopted',
    async run(scene) {
      const [a, b] = await scene.clients();
      const hold = await a.granted('the first');
      await b.store.forceRelease(scene.key);
      const reply = await b.adopt(hold);
      promised(reply.outcome === 'lost' && reply.revoked, 'it to be revoked', reply);
    },
  },
  {
    name: 'an operator who revokes an adopted hold reaches its new holder',
    needs: ['wakeUps'],
    async run(scene) {
      const [a, b, c] = await scene.clients();
      const adopted = await b.adopted('the hold', await a.granted('the first'));
      await c.store.forceRelease(scene.key);
      same((await b.hears('the new holder', adopted.attempt)).kind, 'revoked', 'the message');
    },
  },
  {
    name: 'waiters go on waiting while a hold is adopted, and are served when it is released',
    needs: ['queue', 'wakeUps'],
    async run(scene) {
      const [a, b, c] = await scene.clients();
      const hold = await a.granted('the first');
      const waiter = await c.waits('a waiter', { leaseMs: LONG_MS });
      const adopted = await b.adopted('the hold', hold);
      await c.waits('the waiter', waiter.request);
      same(c.heard.length, 0, 'the number of messages');
      await b.release(adopted);
      await c.hears('the waiter', waiter.request.attempt);
      await c.eventuallyGranted('the waiter', waiter.request);
    },
  },
];
