import { type WakeUp } from '../../core/store/lock-store.js';
import { type Client, type Hold, LONG_MS, SHORT_MS } from './kit/client.js';
import { type PortCase } from './kit/port-case.js';
import { promised, same } from './kit/promised.js';

type Waiting = Awaited<ReturnType<Client['waits']>>;

/** Checks what a pushed grant reports. */
function checkPush(wakeUp: WakeUp, before: Hold, { request, serverTimeMs }: Waiting): void {
  if (wakeUp.kind !== 'granted') return same(wakeUp.kind, 'wake', 'what a waiter is told');
  promised(wakeUp.fencingToken > before.fencingToken, 'a token above that of the last holder', wakeUp);
  const mostMs = Math.min(request.leaseMs, request.waiterLeaseMs);
  promised(wakeUp.remainingMs > 0 && wakeUp.remainingMs <= mostMs, `a lease of at most ${mostMs} ms`, wakeUp);
  promised(wakeUp.serverTimeMs >= serverTimeMs, 'the time of the grant', wakeUp);
}

/** The messages that the store sends by itself. */
export const WAKE_UPS: readonly PortCase[] = [
  {
    name: 'a release wakes a waiter, which has the lock then or on its next request',
    needs: ['wakeUps'],
    async run(scene) {
      const [a, b] = await scene.clients();
      const hold = await a.granted('the holder');
      const waiting = await b.waits('the waiter');
      await a.release(hold);
      const wakeUp = await b.hears('the waiter', waiting.request.attempt);
      checkPush(wakeUp, hold, waiting);
      const next = await b.eventuallyGranted('the waiter', waiting.request);
      promised(next.fencingToken > hold.fencingToken, 'a greater token', next.fencingToken);
    },
  },
  {
    name: 'a pushed grant is a hold: its token renews it to the full lease, and releases it',
    needs: ['wakeUps', 'queue'],
    async run(scene) {
      const [a, b, c] = await scene.clients();
      const hold = await a.granted('the holder');
      const { request } = await b.waits('the waiter', { waiterLeaseMs: 10_000 });
      await a.release(hold);
      const wakeUp = await b.hears('the waiter', request.attempt);
      if (wakeUp.kind !== 'granted') return;
      const pushed = { key: scene.key, attempt: request.attempt, fencingToken: wakeUp.fencingToken, request };
      await c.busy('somebody else');
      const renewed = await b.renew(pushed);
      promised(renewed.outcome === 'renewed' && renewed.remainingMs > 10_000, 'it to be renewed', renewed);
      const again = await b.granted('the same attempt', request);
      same(again.fencingToken, wakeUp.fencingToken, 'the token of the same attempt');
      same((await b.release(again)).outcome, 'released', 'the outcome of its release');
    },
  },
  {
    name: 'a grant that is pushed to a dead waiter lasts for its waiter lease, and no longer',
    needs: ['wakeUps', 'queue'],
    async run(scene) {
      const [a, b, c] = await scene.clients();
      const hold = await a.granted('the holder');
      const dead = await b.waits('the waiter', { waiterLeaseMs: SHORT_MS, leaseMs: LONG_MS });
      await a.release(hold);
      const next = await c.eventuallyGranted('the next', { waiterLeaseMs: LONG_MS });
      const pushed = b.heard.find(({ attempt }) => attempt === dead.request.attempt)?.wakeUp;
      if (pushed?.kind !== 'granted') return;
      scene.notBefore('the pushed grant', pushed.serverTimeMs + pushed.remainingMs, next);
    },
  },
  {
    name: 'wake-ups reach only the client of their attempt',
    needs: ['wakeUps'],
    async run(scene) {
      const clients = await scene.clients();
      const [a, b, c] = clients;
      const hold = await a.granted('the holder');
      const first = await b.waits('the first waiter');
      await a.release(hold);
      await b.hears('the first waiter', first.request.attempt);
      const next = await b.eventuallyGranted('the first waiter', first.request);
      // Messages come in order: any message to the others about the first release would have come before this one.
      for (const client of [c, a]) {
        const { request } = await client.waits('another waiter');
        await (client === c ? b : c).store.forceRelease(scene.key);
        await client.hears('another waiter', request.attempt);
        await client.eventuallyGranted('another waiter', request);
      }
      await b.hears('the first waiter', next.attempt);
      const isForeign = ({ store, heard }: Client) =>
        heard.some(({ attempt }) => attempt.split('.')[0] !== store.clientId);
      same(clients.map(isForeign), [false, false, false], 'who heard of an attempt of somebody else');
    },
  },
  {
    name: 'a client hears nothing before open(), which can be called twice',
    needs: ['wakeUps'],
    async run(scene) {
      const client = await scene.silentClient();
      same(client.listenings, 0, 'the number of `onListening` before `open`');
      client.store.open();
      client.store.open();
      await scene.time.until('`onListening` after `open`', () => client.listenings > 0 || undefined);
    },
  },
];
