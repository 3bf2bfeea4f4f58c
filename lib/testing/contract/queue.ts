import { LONG_MS, SHORT_MS } from './kit/client.js';
import { type PortCase } from './kit/port-case.js';
import { same } from './kit/promised.js';

const READ = { mode: 'read' } as const;

/** The queue. All waiters send their requests again, as some stores send no wake-ups. */
export const QUEUE: readonly PortCase[] = [
  {
    name: 'an acquire that finds the lock busy joins the queue, and reports how many are ahead',
    needs: ['queue'],
    async run(scene) {
      const [a, b, c] = await scene.clients();
      await a.granted('the holder');
      same((await b.waits('the first waiter')).ahead, 0, '`ahead` of the first waiter');
      same((await c.waits('the second waiter')).ahead, 1, '`ahead` of the second waiter');
      same((await a.store.inspect(scene.key)).waiters, 2, 'the number of waiters');
    },
  },
  {
    name: 'waiters are served first in, first out, however often they send their request',
    needs: ['queue'],
    async run(scene) {
      const [a, b, c] = await scene.clients();
      const hold = await a.granted('the holder');
      const first = await b.waits('the first waiter');
      const second = await c.waits('the second waiter');
      same((await b.waits('the first waiter', first.request)).ahead, 0, '`ahead` of the first, after another request,');
      await a.release(hold);
      await c.busy('the second waiter', second.request);
      await a.busy('somebody who comes later');
      const served = await b.eventuallyGranted('the first waiter', first.request);
      await b.release(served);
      await c.eventuallyGranted('the second waiter', second.request);
    },
  },
  {
    name: 'an acquire with `maxWaiters` does not join a queue of so many others, and reports that',
    needs: ['queue'],
    async run(scene) {
      const [a, b, c] = await scene.clients();
      const bounded = { maxWaiters: 1 };
      const hold = await a.granted('the holder');
      const first = await b.waits('the first waiter', bounded);
      same(Boolean(first.isFull), false, '`isFull` of the first waiter');
      same((await c.waits('a second waiter', bounded)).isFull, true, '`isFull` of a second waiter');
      same(Boolean((await b.waits('the first waiter', first.request)).isFull), false, '`isFull` of the first, again,');
      same((await a.store.inspect(scene.key)).waiters, 1, 'the number of waiters');
      await b.giveBack(first.request.attempt);
      same(
        Boolean((await c.waits('a waiter after the first has left', bounded)).isFull),
        false,
        '`isFull`, after that,',
      );
      await a.release(hold);
    },
  },
  {
    name: 'a waiting writer holds back later readers',
    needs: ['queue'],
    async run(scene) {
      const [a, b, c] = await scene.clients();
      const reading = await a.granted('the reader', READ);
      const writer = await b.waits('the writer');
      const later = await c.waits('a later reader', READ);
      await a.release(reading);
      await c.busy('the later reader, before the writer,', later.request);
      const writing = await b.eventuallyGranted('the writer', writer.request);
      await b.release(writing);
      await c.eventuallyGranted('the later reader', later.request);
    },
  },
  {
    name: 'readers that wait side by side are served together, but not those behind a writer',
    needs: ['queue'],
    async run(scene) {
      const [a, b, c] = await scene.clients();
      const hold = await a.granted('the holder');
      const [first, second] = [await b.waits('a reader', READ), await c.waits('another reader', READ)];
      const writer = await a.waits('the writer');
      const last = await b.waits('the reader behind the writer', READ);
      await a.release(hold);
      await b.eventuallyGranted('the first reader', first.request);
      await c.eventuallyGranted('the second reader', second.request);
      await a.busy('the writer', writer.request);
      await b.busy('the reader behind the writer', last.request);
    },
  },
  {
    name: 'a cancelled waiter lets those behind it pass',
    needs: ['queue'],
    async run(scene) {
      const [a, b, c] = await scene.clients();
      await a.granted('the reader', READ);
      const writer = await b.waits('the writer');
      const later = await c.waits('a later reader', READ);
      await b.giveBack(writer.request.attempt);
      await c.eventuallyGranted('the later reader', later.request);
    },
  },
  {
    name: 'a waiter that died holds others back for its waiter lease, and no longer',
    needs: ['queue'],
    async run(scene) {
      const [a, b, c] = await scene.clients();
      await a.granted('the reader', READ);
      const dead = await b.waits('the writer', { waiterLeaseMs: SHORT_MS });
      const served = await c.eventuallyGranted('a later reader', { ...READ, waiterLeaseMs: LONG_MS });
      scene.notBefore('the place of the writer', dead.serverTimeMs + SHORT_MS, served);
      same((await a.store.inspect(scene.key)).waiters, 0, 'the number of waiters');
    },
  },
  {
    name: 'a waiter that sends its request again keeps its place for another waiter lease',
    needs: ['queue'],
    async run(scene) {
      const [a, b, c] = await scene.clients();
      await a.granted('the reader', READ);
      const first = await b.waits('the writer', { waiterLeaseMs: 3_000 });
      const later = await c.waits('a later reader', READ);
      await b.busyUntil(first.serverTimeMs + 3_300, 'the writer', first.request);
      await c.busy('the later reader', later.request);
    },
  },
  {
    name: 'a request with a waiter lease of 0 does not join the queue',
    async run(scene) {
      const [a, b, c] = await scene.clients();
      await a.granted('the reader', READ);
      await b.busy('the writer');
      same((await a.store.inspect(scene.key)).waiters, 0, 'the number of waiters');
      await c.granted('a later reader', READ);
    },
  },
  {
    name: 'waiters do not hold back a request that is not fair',
    async run(scene) {
      const [a, b, c] = await scene.clients();
      await a.granted('the reader', READ);
      await b.waits('the writer');
      await c.granted('a reader that is not fair', { ...READ, fair: false });
    },
  },
  {
    name: 'the lock of a holder that died goes to the next waiter',
    async run(scene) {
      const [a, b] = await scene.clients();
      const dead = await a.granted('the holder', { leaseMs: 2_000 });
      const { request } = await b.waits('the waiter');
      const next = await b.eventuallyGranted('the waiter', request);
      scene.notBefore('the lease', dead.serverTimeMs + 2_000, next);
      await scene.nobodyWaits(a);
      await b.release(next);
      await a.eventuallyGranted('somebody else');
    },
  },
];
