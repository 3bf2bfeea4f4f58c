import { SHORT_MS } from './kit/client.js';
import { type PortCase } from './kit/port-case.js';
import { promised, same } from './kit/promised.js';

/** The end of a hold. */
export const RELEASE: readonly PortCase[] = [
  {
    name: 'a release frees the lock at once',
    async run(scene) {
      const [a, b] = await scene.clients();
      const hold = await a.granted('the holder');
      const reply = await a.release(hold);
      same(reply.outcome, 'released', 'the outcome');
      scene.holdsLeft(reply, 0);
      await b.eventuallyGranted('the next');
    },
  },
  {
    name: 'a release that is sent again returns `again`, and does not touch the next holder',
    async run(scene) {
      const [a, b, c] = await scene.clients();
      const first = await a.granted('the first');
      await a.release(first);
      same((await a.release(first)).outcome, 'again', 'the outcome while the lock is free');
      const second = await b.eventuallyGranted('the second');
      const again = await a.release(first);
      same(again.outcome, 'again', 'the outcome while another holds the lock');
      scene.holdsLeft(again, 1);
      await c.busy('a third');
      const renewed = await b.renew(second);
      promised(renewed.outcome === 'renewed', 'the second to hold it still', renewed);
    },
  },
  {
    name: 'a release by another attempt changes nothing',
    async run(scene) {
      const [a, b] = await scene.clients();
      const hold = await a.granted('the holder');
      for (const attempt of [b.nextAttempt(), a.nextAttempt()]) {
        const reply = await b.giveBack(attempt);
        same(reply.outcome, 'unknown', 'the outcome');
        scene.holdsLeft(reply, 1);
      }
      await b.busy('somebody else');
      const renewed = await a.renew(hold);
      promised(renewed.outcome === 'renewed', 'the hold to be alive', renewed);
    },
  },
  {
    name: 'the release of one reader leaves the others, and reports how many remain',
    async run(scene) {
      const [a, b, c] = await scene.clients();
      const first = await a.granted('a reader', { mode: 'read' });
      const second = await b.granted('another reader', { mode: 'read' });
      scene.holdsLeft(await a.release(first), 1);
      await c.busy('a writer');
      const renewed = await b.renew(second);
      promised(renewed.outcome === 'renewed', 'the other hold to be alive', renewed);
    },
  },
  {
    name: 'the release of a hold whose lease has ended does not free the lock of the next holder',
    async run(scene) {
      const [a, b, c] = await scene.clients();
      const dead = await a.granted('the first', { leaseMs: SHORT_MS });
      await b.eventuallyGranted('the next');
      const { outcome } = await a.release(dead);
      promised(['expired', 'unknown'].includes(outcome), 'it to be `expired` or `unknown`', outcome);
      await c.busy('a third');
    },
  },
  {
    name: 'the release of a waiter removes it from the queue',
    needs: ['queue'],
    async run(scene) {
      const [a, b] = await scene.clients();
      await a.granted('the holder');
      const { request } = await b.waits('the waiter');
      same((await b.giveBack(request.attempt)).outcome, 'cancelled', 'the outcome');
      same((await a.store.inspect(scene.key)).waiters, 0, 'the number of waiters');
    },
  },
];
