import { type PortCase } from './kit/port-case.js';
import { promised, same } from './kit/promised.js';

/** An operator revokes the holds of a lock. */
export const FORCE_RELEASE: readonly PortCase[] = [
  {
    name: 'a revocation ends all holds, and reports whether there were any',
    async run(scene) {
      const [a, b, c] = await scene.clients();
      same(await c.store.forceRelease(scene.key), false, 'the answer for a lock that nobody ever held');
      for (const client of [a, b]) await client.granted('a reader', { mode: 'read' });
      same(await c.store.forceRelease(scene.key), true, 'the answer');
      await scene.reports('the answer to another one', false, () => c.store.forceRelease(scene.key));
      await c.eventuallyGranted('a writer');
    },
  },
  {
    name: 'a revoked holder learns of it from its renewal, its release and its acquire',
    async run(scene) {
      const [a, b] = await scene.clients();
      const hold = await a.granted('the holder');
      await b.store.forceRelease(scene.key);
      const lost = await a.renew(hold);
      promised(lost.outcome === 'lost' && lost.revoked, 'the renewal to be lost and revoked', lost);
      same((await a.downgrade(hold)).outcome, 'lost', 'the outcome of a downgrade');
      await a.refused('the same attempt', 'released', hold.request);
      same((await a.release(hold)).outcome, 'revoked', 'the outcome of the release');
      await b.eventuallyGranted('somebody else');
    },
  },
  {
    name: 'a revocation sends `revoked` to each holder',
    needs: ['wakeUps'],
    async run(scene) {
      const [a, b, c] = await scene.clients();
      const holds = [];
      for (const client of [a, b]) holds.push([client, await client.granted('a reader', { mode: 'read' })] as const);
      await c.store.forceRelease(scene.key);
      for (const [client, { attempt }] of holds) {
        same((await client.hears('a holder', attempt)).kind, 'revoked', 'what a holder hears');
      }
    },
  },
  {
    name: 'waiters keep waiting after a revocation, and the next one is served',
    async run(scene) {
      const [a, b, c] = await scene.clients();
      const hold = await a.granted('the holder');
      const { request } = await b.waits('the waiter');
      same(await c.store.forceRelease(scene.key), true, 'the answer');
      const next = await b.eventuallyGranted('the waiter', request);
      promised(next.fencingToken > hold.fencingToken, 'a greater token', next.fencingToken);
      same((await a.renew(hold)).outcome, 'lost', 'the outcome of a renewal by the one before');
    },
  },
  {
    name: 'a revocation also ends a hold that was released with `holdAtLeastMs`',
    async run(scene) {
      const [a, b] = await scene.clients();
      await a.release(await a.granted('the holder'), { holdAtLeastMs: 20_000 });
      same(await b.store.forceRelease(scene.key), true, 'the answer');
      await b.eventuallyGranted('the next');
    },
  },
  {
    name: 'a revocation also ends a re-entry that was released with `holdAtLeastMs`',
    async run(scene) {
      const [a, b] = await scene.clients();
      const owner = { owner: 'job 7' };
      const first = await a.granted('the owner', owner);
      // A re-entry has the token of the first grant, and a later time.
      await scene.time.pass(20);
      await a.release(await a.granted('the owner, again,', owner), { holdAtLeastMs: 20_000 });
      await a.release(first);
      same(await b.store.forceRelease(scene.key), true, 'the answer');
      await b.eventuallyGranted('the next');
    },
  },
];
