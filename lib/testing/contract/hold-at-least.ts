import { type PortCase } from './kit/port-case.js';
import { promised, same } from './kit/promised.js';

const MINIMUM_MS = 1_500;

/** A lock that stays taken for a minimum time. */
export const HOLD_AT_LEAST: readonly PortCase[] = [
  {
    name: 'a release with `holdAtLeastMs` keeps the lock taken until that long after the grant, and no longer',
    async run(scene) {
      const [a, b] = await scene.clients();
      const hold = await a.granted('the holder');
      same((await a.release(hold, { holdAtLeastMs: MINIMUM_MS })).outcome, 'released', 'the outcome');
      const next = await b.eventuallyGranted('the next');
      scene.notBefore('the minimum', hold.serverTimeMs + MINIMUM_MS, next);
    },
  },
  {
    name: 'a hold that was released with `holdAtLeastMs` belongs to nobody',
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
    name: 'inspect() reports a hold that was released with `holdAtLeastMs` with a fencing token of 0',
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
    name: 'a release after its `holdAtLeastMs` has passed frees the lock at once',
    async run(scene) {
      const [a, b] = await scene.clients();
      const hold = await a.granted('the holder');
      await b.busyUntil(hold.serverTimeMs + 100 + scene.spreadMs, 'somebody else');
      scene.holdsLeft(await a.release(hold, { holdAtLeastMs: 100 }), 0);
      await b.eventuallyGranted('the next');
    },
  },
];
