import { type PortCase } from './kit/port-case.js';
import { promised, same } from './kit/promised.js';

const SEMAPHORE = { mode: 'read', permits: 5 } as const;

/** Semaphores whose requests take several permits, and whose permits an operator sets. */
export const SEMAPHORES: readonly PortCase[] = [
  {
    name: 'a request takes as many permits as it says, all of them or none, until its hold ends',
    needs: ['permits'],
    async run(scene) {
      const [a, b, c] = await scene.clients();
      const large = await a.granted('three of five permits', { ...SEMAPHORE, take: 3 });
      await b.busy('three others', { ...SEMAPHORE, take: 3 });
      await b.granted('the other two', { ...SEMAPHORE, take: 2 });
      await c.busy('one more', SEMAPHORE);
      await a.granted('the first three, again,', large.request);
      await c.busy('one more, still,', SEMAPHORE);
      await a.release(large);
      await a.release(large);
      await c.granted('three', { ...SEMAPHORE, take: 3 });
      await a.busy('one more, at last,', SEMAPHORE);
    },
  },
  {
    name: 'a waiter for many permits is not overtaken by those who need few',
    needs: ['permits', 'queue'],
    async run(scene) {
      const [a, b, c] = await scene.clients();
      const hold = await a.granted('three of five permits', { ...SEMAPHORE, take: 3 });
      const { request } = await b.waits('four', { ...SEMAPHORE, take: 4 });
      await c.busy('one, though two are free,', SEMAPHORE);
      await a.release(hold);
      await b.eventuallyGranted('four', request);
      await c.granted('one', SEMAPHORE);
    },
  },
  {
    name: 'the permits of an operator count for all requests, until there are none of them any more',
    needs: ['permits'],
    async run(scene) {
      const [a, b] = await scene.clients();
      await a.store.setPermits(scene.key, 2);
      const first = await a.granted('a reader that counts five', SEMAPHORE);
      await b.granted('a reader that counts none', { mode: 'read' });
      const busy = await a.busy('a third one', SEMAPHORE);
      same(busy.permits, 2, 'the `permits` of a busy reply');
      await b.store.setPermits(scene.key, 3);
      await a.granted('the third one', SEMAPHORE);
      await b.store.setPermits(scene.key, 1);
      await a.release(first);
      await b.busy('another one, while two hold one permit,', SEMAPHORE);
      await b.store.setPermits(scene.key, null);
      await b.granted('one of five', SEMAPHORE);
    },
  },
  {
    name: 'a request that takes more permits than an operator has set is refused, also when it waits',
    needs: ['permits', 'queue'],
    async run(scene) {
      const [a, b, c] = await scene.clients();
      await a.granted('one of five permits', SEMAPHORE);
      const { request } = await b.waits('five', { ...SEMAPHORE, take: 5 });
      await a.store.setPermits(scene.key, 3);
      // It holds nobody back.
      await c.eventuallyGranted('one behind it', SEMAPHORE);
      const refused = await b.refused('five', 'permits', request);
      same(refused.permits, 3, 'the `permits` of the refusal');
      await a.store.setPermits(scene.key, 0);
      await b.refused('one of none', 'permits', { mode: 'read' });
    },
  },
  {
    name: 'more permits let in those who wait',
    needs: ['permits', 'queue'],
    async run(scene) {
      const [a, b] = await scene.clients();
      await a.store.setPermits(scene.key, 1);
      await a.granted('the only permit', { mode: 'read' });
      const { request } = await b.waits('another', { mode: 'read' });
      await a.store.setPermits(scene.key, 2);
      await b.eventuallyGranted('the other', request);
    },
  },
  {
    name: 'more permits wake those who wait',
    needs: ['permits', 'queue', 'wakeUps'],
    async run(scene) {
      const [a, b, c] = await scene.clients();
      await a.store.setPermits(scene.key, 2);
      await a.granted('one of two permits', { mode: 'read' });
      const { request } = await b.waits('two', { mode: 'read', take: 2 });
      const { request: later } = await c.waits('one behind it', { mode: 'read' });
      await a.store.setPermits(scene.key, 1);
      await b.refused('two of one', 'permits', request);
      await scene.reports('the number of waiters', 1, async () => (await a.store.inspect(scene.key)).waiters);
      await a.store.setPermits(scene.key, 2);
      await c.hears('who fits', later.attempt);
    },
  },
  {
    name: 'the state of a semaphore tells how many permits are used and free',
    needs: ['permits'],
    async run(scene) {
      const [a] = await scene.clients();
      const permits = async () => (await a.store.inspect(scene.key)).permits;
      same(await permits(), null, 'the permits of a lock that nobody has used');
      const hold = await a.granted('three of five permits', { ...SEMAPHORE, take: 3 });
      same(await permits(), { allowed: 5, used: 3, available: 2 }, 'the permits');
      const [holder] = (await a.store.inspect(scene.key)).holders;
      promised(holder?.take === 3, 'the holder to take three', holder);
      await a.store.setPermits(scene.key, 2);
      same(await permits(), { allowed: 2, used: 3, available: 0 }, 'the permits, when there are fewer than are used,');
      await a.release(hold);
      same(await permits(), { allowed: 2, used: 0, available: 2 }, 'the permits when nobody holds the lock');
    },
  },
];
