import { HOLDER, LONG_MS } from './kit/client.js';
import { type PortCase } from './kit/port-case.js';
import { promised } from './kit/promised.js';

/** Which holds exclude which. */
export const EXCLUSION: readonly PortCase[] = [
  {
    name: 'a write hold excludes writers, including those of the same client',
    async run(scene) {
      const [a, b] = await scene.clients();
      await a.granted('the first writer');
      await a.busy('another writer of that client');
      await b.busy('a writer of another client');
    },
  },
  {
    name: 'a write hold excludes readers',
    async run(scene) {
      const [a, b] = await scene.clients();
      await a.granted('the writer');
      await b.busy('a reader', { mode: 'read' });
    },
  },
  {
    name: 'read holds exclude writers until the last reader releases',
    async run(scene) {
      const [a, b, c] = await scene.clients();
      const first = await a.granted('the reader', { mode: 'read' });
      const second = await b.granted('another reader', { mode: 'read' });
      await c.busy('a writer');
      await a.release(first);
      await c.busy('a writer, while one reader is left,');
      await b.release(second);
      await c.eventuallyGranted('a writer');
    },
  },
  {
    name: 'at most one of many concurrent writers is granted',
    async run(scene) {
      const clients = await scene.clients();
      const sent = [...clients, ...clients, ...clients].map((client) => client.send(client.requestOf({})));
      const replies = (await Promise.allSettled(sent)).map((one) =>
        one.status === 'fulfilled' ? one.value : undefined,
      );
      const granted = replies.filter((reply) => reply?.outcome === 'granted');
      promised(granted.length <= 1, 'at most one of nine to be granted', granted);
    },
  },
  {
    name: 'at most `permits` readers share a lock, and each request counts all of them',
    needs: ['permits'],
    async run(scene) {
      const [a, b, c] = await scene.clients();
      const first = await a.granted('the first of two readers', { mode: 'read', permits: 2 });
      await b.granted('the second of two readers', { mode: 'read', permits: 2 });
      await c.busy('a third of two readers', { mode: 'read', permits: 2 });
      await c.granted('a third of three readers', { mode: 'read', permits: 3 });
      await a.release(first);
      await a.busy('a third of two readers, again,', { mode: 'read', permits: 2 });
    },
  },
  {
    name: 'keys that differ in one character are different locks',
    async run(scene) {
      const a = await scene.client();
      const keys = ['a', 'A', 'a ', '{a}', '%7Ba%7D', 'á', 'a:b', 'a\n', '*', '?'].map((name) => scene.prefix + name);
      for (const key of keys) await a.granted(`the lock ${JSON.stringify(key)}`, { keys: [key] });
    },
  },
  {
    name: 'a busy reply reports nothing false about the holder',
    async run(scene) {
      const [a, b] = await scene.clients();
      const { attempt, serverTimeMs, ...hold } = await a.granted('the writer');
      const busy = await b.busy('another writer');
      promised(busy.retryMs >= 0 && busy.retryMs <= LONG_MS, '`retryMs` to be within the lease', busy);
      promised([undefined, HOLDER].includes(busy.holder), '`holder` to be what the holder gave', busy);
      promised([undefined, attempt].includes(busy.owner), '`owner` to be the attempt that writes', busy);
      scene.notBefore('`serverTimeMs` of a later reply', serverTimeMs, busy);
      await a.release({ attempt, serverTimeMs, ...hold });
      await a.granted('a reader', { mode: 'read' });
      const { owner } = await b.busy('a writer');
      promised(!owner, '`owner` to be empty while nobody writes', owner);
    },
  },
];
