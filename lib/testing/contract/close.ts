import { type PortCase } from './kit/port-case.js';
import { promised, same } from './kit/promised.js';

/** The time limit of a command that gets no reply. */
const SOON_MS = 500;

/** Closing a client. */
export const CLOSE: readonly PortCase[] = [
  {
    name: 'each client has an id of its own, without a dot',
    async run(scene) {
      const ids = (await scene.clients()).map(({ store }) => store.clientId);
      same(new Set(ids).size, 3, 'the number of ids');
      promised(
        ids.every((id) => /^[^.\s]+$/.test(id)),
        'no dots or spaces',
        ids,
      );
    },
  },
  {
    name: 'closing a client frees nothing',
    async run(scene) {
      const [a, b] = await scene.clients();
      const hold = await a.granted('the holder');
      await a.store.close();
      await b.busy('somebody else');
      const renewed = await b.renew(hold);
      promised(renewed.outcome === 'renewed', 'the hold to be alive', renewed);
    },
  },
  {
    name: 'commands after close() settle, and leave other clients alone',
    async run(scene) {
      const [a, b] = await scene.clients();
      const hold = await b.granted('the holder');
      await a.store.close();
      const late = a.requestOf({});
      const acquiring = a.store.acquire(late, SOON_MS, () => undefined);
      const acquired = await scene.time.settles('an acquire after the close', acquiring);
      const granted = acquired.status === 'fulfilled' && acquired.value.outcome === 'granted';
      promised(!granted, 'an acquire after the close not to be granted what another holds', acquired);
      const { key, attempt, leaseMs } = { ...late, key: scene.key };
      const releasing = a.store.release({ key, attempt, leaseMs, holdAtLeastMs: 0 }, SOON_MS);
      await scene.time.settles('a release after the close', releasing);
      const renewing = a.store.renew([{ ...hold, ...late, leaseMs: 1, timeoutMs: SOON_MS }]);
      const renewal = await scene.time.settles('a renewal after the close', renewing);
      promised(renewal.status === 'fulfilled', 'a renewal never to reject', renewal);
      promised((await b.renew(hold)).outcome === 'renewed', 'the other client to hold its lock still');
    },
  },
  {
    name: 'a client can be closed twice, and before it was opened',
    async run(scene) {
      const [opened, silent] = [await scene.client(), await scene.silentClient()];
      for (const { store } of [opened, opened, silent]) {
        const closed = await scene.time.settles('a close', store.close());
        promised(closed.status === 'fulfilled', 'the close not to reject', closed);
      }
    },
  },
];
