import { type PortCase } from './kit/port-case.js';
import { promised, same } from './kit/promised.js';

/** From writing to reading, without a moment in which the lock is free. */
export const DOWNGRADE: readonly PortCase[] = [
  {
    name: 'a downgrade lets readers in, and keeps writers out',
    async run(scene) {
      const [a, b, c] = await scene.clients();
      const hold = await a.granted('the writer');
      await b.busy('a reader', { mode: 'read' });
      same((await a.downgrade(hold)).outcome, 'downgraded', 'the outcome');
      await c.busy('another writer');
      await b.granted('a reader', { mode: 'read' });
    },
  },
  {
    name: 'a downgraded hold keeps its fencing token and its lease',
    async run(scene) {
      const a = await scene.client();
      const hold = await a.granted('the writer');
      await a.downgrade(hold);
      const { mode, holders } = await a.store.inspect(scene.key);
      same([mode, holders.map((holder) => holder.fencingToken)], ['read', [hold.fencingToken]], 'the mode and token');
      promised(holders[0]!.remainingMs > 20_000, 'the lease not to be shortened', holders[0]);
      const renewed = await a.renew(hold);
      promised(renewed.outcome === 'renewed', 'the same token to renew it', renewed);
      same((await a.release(hold)).outcome, 'released', 'the outcome of its release');
    },
  },
  {
    name: 'a downgrade that is sent again returns the same reply, and counts once',
    async run(scene) {
      const [a, b] = await scene.clients();
      const hold = await a.granted('the writer');
      for (const _ of ['first', 'second']) same((await a.downgrade(hold)).outcome, 'downgraded', 'the outcome');
      scene.holdsLeft(await a.release(hold), 0);
      await b.eventuallyGranted('another writer');
    },
  },
  {
    name: 'a downgrade of a hold that has ended, or with another token, is lost and changes nothing',
    async run(scene) {
      const [a, b] = await scene.clients();
      const gone = await a.granted('the first');
      await a.release(gone);
      const hold = await b.eventuallyGranted('the second');
      for (const wrong of [gone, { ...hold, fencingToken: hold.fencingToken + 1 }]) {
        const reply = await a.downgrade(wrong);
        promised(reply.outcome === 'lost' && !reply.revoked, 'it to be lost', reply);
        scene.lastToken(reply.lastToken, hold.fencingToken);
      }
      await a.busy('a reader', { mode: 'read' });
    },
  },
  {
    name: 'a renewal in read mode makes up for a downgrade that did not arrive',
    async run(scene) {
      const [a, b, c] = await scene.clients();
      const hold = await a.granted('the writer');
      await a.renew({ ...hold, request: { ...hold.request, mode: 'read' } });
      await b.eventuallyGranted('a reader', { mode: 'read' });
      await c.busy('another writer');
      // A late renewal from before the downgrade changes nothing.
      await a.renew(hold);
      await c.eventuallyGranted('another reader', { mode: 'read' });
      const { mode, fencingToken } = await a.store.inspect(scene.key);
      promised(mode === 'read' && fencingToken >= hold.fencingToken, 'a lock that is read', { mode, fencingToken });
      same((await a.release(hold)).outcome, 'released', 'the outcome of its release');
    },
  },
  {
    name: 'a downgrade serves the readers at the head of the queue',
    needs: ['queue', 'wakeUps'],
    async run(scene) {
      const [a, b, c] = await scene.clients();
      const hold = await a.granted('the writer');
      const reader = await b.waits('a reader', { mode: 'read' });
      const writer = await c.waits('another writer');
      await a.downgrade(hold);
      await b.hears('the reader', reader.request.attempt);
      await b.eventuallyGranted('the reader', reader.request);
      await c.busy('the other writer', writer.request);
    },
  },
];
