import { SHORT_MS } from './kit/client.js';
import { type PortCase } from './kit/port-case.js';
import { promised, same } from './kit/promised.js';

/** An acquire that is sent again, or late. */
export const REPEATED_ACQUIRES: readonly PortCase[] = [
  {
    name: 'an acquire that is sent again at once does not disturb its own hold',
    needs: ['sameGrant'],
    async run(scene) {
      const a = await scene.client();
      // Some of several servers may grant while it is sent again: one try would seldom show it.
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
    name: 'an acquire that is sent again returns the same grant, which one release ends',
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
    name: 'an acquire that is sent again extends the lease to the requested length, and never shortens it',
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
    name: 'an acquire that is sent again after a downgrade returns the same grant, for reading',
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
    name: 'an acquire that arrives after the release of its attempt is refused, and locks nothing',
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
    name: 'an acquire that arrives after its own release is refused',
    async run(scene) {
      const a = await scene.client();
      const attempt = a.nextAttempt();
      const { outcome } = await a.giveBack(attempt);
      same(outcome, 'unknown', 'the outcome of a release of nothing');
      await a.refused('the attempt', 'released', { attempt });
    },
  },
  {
    name: 'an acquire that arrives after its attempt was cancelled is refused',
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
