import { type PortCase } from './kit/port-case.js';
import { promised, same } from './kit/promised.js';

const MIN_HOLD_MS = 1_500;

/** A lock that is kept taken for a minimum. */
export const MIN_HOLD: readonly PortCase[] = [
  {
    name: 'a release with `holdAtLeastMs` keeps the lock taken until so long after the grant, and no longer',
    async run(scene) {
      const [a, b] = await scene.clients();
      const hold = await a.granted('the holder');
      same((await a.release(hold, { holdAtLeastMs: MIN_HOLD_MS })).outcome, 'released', 'the outcome');
      const next = await b.eventuallyGranted('the next');
      scene.notBefore('the minimum', hold.serverTimeMs + MIN_HOLD_MS, next);
    },
  },
  {
    name: 'a hold that was given back with `holdAtLeastMs` belongs to nobody',
    async run(scene) {
      const [a, b] = await scene.clients();
      const hold = await a.granted('the owner', { owner: 'job 7' });
      await a.release(hold, { holdAtLeastMs: 20_000 });
      same((await a.renew(hold)).outcome, 'lost', 'the outcome of a renewal');
      same((await a.release(hold, { holdAtLeastMs: 20_000 })).outcome, 'again', 'the outcome of another release');
      await a.refused('the same attempt', 'released', hold.request);
      await b.busy('the same owner', { owner: 'job 7' });
      await b.busy('a reader', { mode: 'read' });
    },
  },
  {
    name: 'inspect tells a hold that was given back with `holdAtLeastMs` with a fencing token of 0',
    async run(scene) {
      const a = await scene.client();
      const hold = await a.granted('the holder');
      await a.release(hold, { holdAtLeastMs: 20_000 });
      const { mode, holders } = await a.store.inspect(scene.key);
      same([mode, holders.map(({ fencingToken }) => fencingToken)], ['write', [0]], 'the mode and the tokens');
      promised(holders[0]!.remainingMs <= 20_000, 'it to end by its minimum', holders);
    },
  },
  {
    name: 'a release with a `holdAtLeastMs` that is over frees the lock at once',
    async run(scene) {
      const [a, b] = await scene.clients();
      const hold = await a.granted('the holder');
      await b.busyUntil(hold.serverTimeMs + 100 + scene.spreadMs, 'somebody else');
      scene.holdsLeft(await a.release(hold, { holdAtLeastMs: 100 }), 0);
      await b.eventuallyGranted('the next');
    },
  },
];
