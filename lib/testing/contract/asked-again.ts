import { SHORT_MS } from './kit/client.js';
import { type PortCase } from './kit/port-case.js';
import { promised, same } from './kit/promised.js';

/** An acquire that is sent twice, or late. */
export const ASKED_AGAIN: readonly PortCase[] = [
  {
    name: 'an acquire that is asked again at once does not disturb the hold that it has',
    needs: ['sameGrant'],
    async run(scene) {
      const a = await scene.client();
      // Where several servers grant, some may do so while it is asked again: one try would seldom show it.
      for (let turn = 1; turn <= 30; turn += 1) {
        const hold = await a.granted(`turn ${turn}`, { keys: [`${scene.prefix}${turn}`] });
        const reply = await a.send(hold.request);
        promised(reply.outcome === 'granted', 'the same attempt to be granted', reply);
        same(reply.fencingTokens, hold.fencingTokens, 'the tokens');
        const renewed = await a.renew(hold);
        promised(renewed.outcome === 'renewed', 'the hold to be alive', renewed);
      }
    },
  },
  {
    name: 'an acquire that is asked again gives the same grant, which one release ends',
    needs: ['sameGrant'],
    async run(scene) {
      const [a, b] = await scene.clients();
      const first = await a.granted('the attempt');
      const second = await a.granted('the same attempt', first.request);
      same(second.fencingTokens, first.fencingTokens, 'the tokens');
      same((await b.store.inspect(scene.key)).holders.length, 1, 'the number of holders');
      scene.holdsLeft(await a.release(second), 0);
      await b.eventuallyGranted('the next');
    },
  },
  {
    name: 'an acquire that is asked again makes the lease as long as it asks, and never shorter',
    needs: ['sameGrant'],
    async run(scene) {
      const a = await scene.client();
      const { request, remainingMs } = await a.granted('the attempt', { leaseMs: 10_000 });
      const longer = await a.granted('the same attempt, for longer,', { ...request, leaseMs: 20_000 });
      promised(longer.remainingMs > remainingMs, 'the lease to be longer', longer.remainingMs);
      const shorter = await a.granted('the same attempt, for shorter,', { ...request, leaseMs: SHORT_MS });
      promised(shorter.remainingMs > 10_000, 'the lease not to be shortened', shorter.remainingMs);
    },
  },
  {
    name: 'an acquire that is asked again after a downgrade gives the same grant, for reading',
    needs: ['sameGrant'],
    async run(scene) {
      const [a, b] = await scene.clients();
      const hold = await a.granted('the writer');
      await a.downgrade(hold);
      const again = await a.granted('the same attempt', hold.request);
      same(again.fencingTokens, hold.fencingTokens, 'the tokens');
      await b.granted('a reader', { mode: 'read' });
    },
  },
  {
    name: 'an acquire that comes after the release of its attempt is refused, and locks nothing',
    async run(scene) {
      const [a, b] = await scene.clients();
      const hold = await a.granted('the attempt');
      await a.release(hold);
      await a.refused('the same attempt', 'released', hold.request);
      await b.eventuallyGranted('the next');
      await a.refused('the same attempt, while another holds the lock,', 'released', hold.request);
    },
  },
  {
    name: 'an acquire that its own release has overtaken is refused',
    async run(scene) {
      const a = await scene.client();
      const attempt = a.nextAttempt();
      const { outcome } = await a.giveBack(attempt);
      same(outcome, 'unknown', 'the outcome of a release of nothing');
      await a.refused('the attempt', 'released', { attempt });
    },
  },
  {
    name: 'an acquire that comes after its attempt gave up waiting is refused',
    needs: ['queue'],
    async run(scene) {
      const [a, b] = await scene.clients();
      const hold = await a.granted('the holder');
      const { request } = await b.waits('the waiter');
      await b.giveBack(request.attempt);
      await a.release(hold);
      await b.refused('the attempt', 'released', request);
      await a.granted('somebody else');
    },
  },
];
