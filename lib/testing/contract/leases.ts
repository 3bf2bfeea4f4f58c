import { LONG_MS, SHORT_MS } from './kit/client.js';
import { type PortCase } from './kit/port-case.js';
import { promised, same } from './kit/promised.js';

/** Leases: how they end, and how they are renewed. */
export const LEASES: readonly PortCase[] = [
  {
    name: 'a lock is free when its lease ends, and not before',
    async run(scene) {
      const [a, b] = await scene.clients();
      const dead = await a.granted('the first', { leaseMs: SHORT_MS });
      promised(dead.remainingMs > 0 && dead.remainingMs <= SHORT_MS, 'the grant to tell its lease', dead.remainingMs);
      const next = await b.eventuallyGranted('the next');
      scene.notBefore('the lease', dead.serverTimeMs + dead.remainingMs, next);
    },
  },
  {
    name: 'a lease may last for one millisecond',
    needs: ['shortLeases'],
    async run(scene) {
      const [a, b] = await scene.clients();
      const dead = await a.granted('the first', { leaseMs: 1 });
      same(dead.remainingMs, 1, 'the lease of the grant');
      const next = await b.eventuallyGranted('the next');
      scene.notBefore('the lease', dead.serverTimeMs + 1, next);
      promised(next.fencingToken > dead.fencingToken, 'the next to have a greater token', next);
      same((await a.renew(dead)).outcome, 'lost', 'the outcome of a renewal by the first');
    },
  },
  {
    name: 'a renewal extends the lease to the requested length',
    async run(scene) {
      const [a, b] = await scene.clients();
      const hold = await a.granted('the holder', { leaseMs: 3_000 });
      const renewed = await a.renew(hold, LONG_MS);
      const isLong = renewed.outcome === 'renewed' && renewed.remainingMs > 3_000 && renewed.remainingMs <= LONG_MS;
      promised(isLong, 'the renewal to tell the longer lease', renewed);
      await b.busyUntil(hold.serverTimeMs + 3_200, 'somebody else');
    },
  },
  {
    name: 'a renewal never shortens a lease',
    async run(scene) {
      const a = await scene.client();
      const renewed = await a.renew(await a.granted('the holder'), SHORT_MS);
      promised(renewed.outcome === 'renewed' && renewed.remainingMs > SHORT_MS, 'the longer lease', renewed);
    },
  },
  {
    name: 'renew() returns its replies in the order of its requests',
    async run(scene) {
      const a = await scene.client();
      const keys = ['a', 'b', 'c'].map((name) => scene.prefix + name);
      const holds = [];
      for (const key of keys) holds.push(await a.granted(`the lock ${key}`, { keys: [key] }));
      await a.release(holds[1]!);
      const requests = holds.map(({ key, attempt, fencingToken, request: { mode, owner, holder } }) => {
        return { key, attempt, fencingToken, mode, owner, holder, leaseMs: LONG_MS, timeoutMs: 5_000 };
      });
      const replies = await scene.time.until('all renewals to be answered', async () => {
        const all = await a.store.renew(requests);
        return all.some(({ outcome }) => outcome === 'unknown') ? undefined : all;
      });
      same(
        replies.map(({ outcome }) => outcome),
        ['renewed', 'lost', 'renewed'],
        'the outcomes',
      );
      same(await a.store.renew([]), [], 'the outcomes of no renewals');
    },
  },
  {
    name: 'a renewal with another fencing token is lost, and changes nothing',
    async run(scene) {
      const a = await scene.client();
      const hold = await a.granted('the holder');
      for (const by of [-1, 1]) {
        const reply = await a.renew({ ...hold, fencingToken: hold.fencingToken + by });
        promised(reply.outcome === 'lost' && !reply.revoked, 'it to be lost', reply);
      }
      const renewed = await a.renew(hold);
      promised(renewed.outcome === 'renewed', 'the hold to be alive', renewed);
    },
  },
  {
    name: 'a renewal by another attempt is lost, and reports the last fencing token',
    async run(scene) {
      const [a, b] = await scene.clients();
      const hold = await a.granted('the holder');
      const reply = await b.renew({ ...hold, attempt: b.nextAttempt() });
      promised(reply.outcome === 'lost', 'it to be lost', reply);
      scene.lastToken(reply.lastToken, hold.fencingToken);
    },
  },
  {
    name: 'a hold whose lease has ended is never brought back',
    async run(scene) {
      const [a, b] = await scene.clients();
      const dead = await a.granted('the first', { leaseMs: SHORT_MS });
      await scene.leaseEnds(b);
      const lost = await a.renew(dead);
      promised(lost.outcome === 'lost', 'the renewal to be lost', lost);
      scene.lastToken(lost.lastToken, dead.fencingToken);
      const next = await b.eventuallyGranted('the next');
      same((await a.renew(dead)).outcome, 'lost', 'the outcome of another renewal');
      promised(next.fencingToken > dead.fencingToken, 'the next to have a greater token', next);
    },
  },
  {
    name: 'a renewal after the release is lost, but not revoked',
    async run(scene) {
      const a = await scene.client();
      const hold = await a.granted('the holder');
      await a.release(hold);
      const reply = await a.renew(hold);
      promised(reply.outcome === 'lost' && !reply.revoked, 'it to be lost', reply);
    },
  },
];
