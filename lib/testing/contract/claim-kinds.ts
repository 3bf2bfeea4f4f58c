import { claimOf } from './claims.js';
import { type PortCase } from './kit/port-case.js';
import { promised, same } from './kit/promised.js';

/** So wide that no test reaches its end. */
const WIDE_MS = 10 ** 11;
const NARROW_MS = 300;

/** Claims of slots and gaps, whose fire the store finds. */
export const CLAIM_KINDS: readonly PortCase[] = [
  {
    name: 'a slot is granted once, and the clock of the store decides which slot it is',
    needs: ['claims'],
    async run(scene) {
      const [a, b] = await scene.clients();
      const run = await a.granted('the claim', claimOf(scene, 'slot', WIDE_MS));
      same(run.fireMs, Math.floor(run.serverTimeMs / WIDE_MS) * WIDE_MS, '`fireMs`');
      await a.release(run, { runOutcome: 'done' });
      await b.refused('another claim of the slot', 'claimed', claimOf(scene, 'slot', WIDE_MS));
    },
  },
  {
    name: 'a call belongs to the slot in which it was made, however late its request arrives',
    needs: ['claims'],
    async run(scene) {
      const a = await scene.client();
      const calledAt = scene.time.now() - 2 * WIDE_MS;
      const run = await a.granted('the claim', claimOf(scene, 'slot', WIDE_MS, { calledAt }));
      const slot = Math.floor(run.serverTimeMs / WIDE_MS) * WIDE_MS;
      same(run.fireMs, slot - 2 * WIDE_MS, '`fireMs`');
    },
  },
  {
    name: 'the slot after a finished one is granted',
    needs: ['claims'],
    async run(scene) {
      const [a, b] = await scene.clients();
      const run = await a.granted('the claim', claimOf(scene, 'slot', NARROW_MS));
      await a.release(run, { runOutcome: 'done' });
      const next = await scene.time.until('the next slot to be granted', async () => {
        const { reply } = await b.acquire(claimOf(scene, 'slot', NARROW_MS));
        return reply.outcome === 'granted' ? reply : undefined;
      });
      const isLater = next.fireMs! > run.fireMs! && next.fireMs! % NARROW_MS === 0;
      promised(isLater, `a later slot than ${run.fireMs}`, next.fireMs);
    },
  },
  {
    name: 'a gap is refused until its time after the last fire has passed, and then granted',
    needs: ['claims'],
    async run(scene) {
      const [a, b] = await scene.clients();
      const run = await a.granted('the claim', claimOf(scene, 'gap', NARROW_MS));
      scene.sameTime(run.fireMs!, run.serverTimeMs, '`fireMs`');
      await a.release(run, { runOutcome: 'done' });
      await b.refused('a wider gap', 'claimed', claimOf(scene, 'gap', WIDE_MS));
      const next = await scene.time.until('the gap to end', async () => {
        const { reply } = await b.acquire(claimOf(scene, 'gap', NARROW_MS));
        return reply.outcome === 'granted' ? reply : undefined;
      });
      scene.notBefore('the gap', run.fireMs! + NARROW_MS, { serverTimeMs: next.fireMs! });
    },
  },
];
