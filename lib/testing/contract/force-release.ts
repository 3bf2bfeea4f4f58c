import { type PortCase } from './kit/port-case.js';
import { promised, same } from './kit/promised.js';

/** An operator takes a lock away. */
export const FORCE_RELEASE: readonly PortCase[] = [
  {
    name: 'a revocation ends all holds, and tells whether there were any',
    async run(scene) {
      const [a, b, c] = await scene.clients();
      same(await c.store.forceRelease(scene.key), false, 'the answer for a lock that nobody ever held');
      for (const client of [a, b]) await client.granted('a reader', { mode: 'read' });
      same(await c.store.forceRelease(scene.key), true, 'the answer');
      await scene.tells('the answer to another one', false, () => c.store.forceRelease(scene.key));
      await c.eventuallyGranted('a writer');
    },
  },
  {
    name: 'after a revocation, the renewal, the release and the acquire of the holder tell of it',
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
    name: 'a revocation tells each holder `revoked`',
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
    name: 'after a revocation those who wait go on waiting, and the next is served',
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
    name: 'a revocation also ends a hold that was given back with `holdAtLeastMs`',
    async run(scene) {
      const [a, b] = await scene.clients();
      await a.release(await a.granted('the holder'), { holdAtLeastMs: 20_000 });
      same(await b.store.forceRelease(scene.key), true, 'the answer');
      await b.eventuallyGranted('the next');
    },
  },
];
