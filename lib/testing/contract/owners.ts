import { LONG_MS } from './kit/client.js';
import { type PortCase } from './kit/port-case.js';
import { promised, same } from './kit/promised.js';

const OWNER = { owner: 'job 7' };

/** Acquisitions that share a lock by the name of their owner. */
export const OWNERS: readonly PortCase[] = [
  {
    name: 'an owner that writes re-enters its lock with the same fencing token, on any client',
    async run(scene) {
      const [a, b, c] = await scene.clients();
      const outer = await a.granted('the owner', OWNER);
      const writing = await b.granted('the owner, for writing,', OWNER);
      const reading = await b.granted('the owner, for reading,', { ...OWNER, mode: 'read' });
      same([writing.fencingToken, reading.fencingToken], [outer.fencingToken, outer.fencingToken], 'the tokens');
      await c.busy('another owner', { owner: 'job 8' });
      await c.busy('an attempt without an owner');
    },
  },
  {
    name: 'each hold of an owner is released separately',
    async run(scene) {
      const [a, b, c] = await scene.clients();
      const outer = await a.granted('the owner', OWNER);
      const inner = await b.granted('the owner, again,', OWNER);
      scene.holdsLeft(await a.release(outer), 1);
      await c.busy('somebody else');
      const renewed = await b.renew(inner);
      promised(renewed.outcome === 'renewed', 'the other hold to be alive', renewed);
      scene.holdsLeft(await b.release(inner), 0);
      await c.eventuallyGranted('somebody else');
    },
  },
  {
    name: 'an owner that reads re-enters for reading with the same fencing token',
    async run(scene) {
      const [a, b] = await scene.clients();
      const outer = await a.granted('the owner', { ...OWNER, mode: 'read' });
      const inner = await b.granted('the owner, again,', { ...OWNER, mode: 'read' });
      same(inner.fencingToken, outer.fencingToken, 'the token');
    },
  },
  {
    name: 'an owner that got several tokens for reading re-enters with the greatest',
    needs: ['queue'],
    async run(scene) {
      const [a, b, c] = await scene.clients();
      const fields = { owner: 'job 7', mode: 'read', waiterLeaseMs: LONG_MS } as const;
      const writing = await a.granted('the writer');
      const [first, second] = [await b.waits('a call of the owner', fields), await c.waits('another one', fields)];
      await a.release(writing);
      const holds = [
        await b.eventuallyGranted('the first', first.request),
        await c.eventuallyGranted('the second', second.request),
      ];
      const greatest = Math.max(...holds.map(({ fencingToken }) => fencingToken));
      await c.release(holds[1]!);
      const third = await a.granted('a third', { owner: 'job 7', mode: 'read' });
      same(third.fencingToken, greatest, 'the token of a third');
    },
  },
  {
    name: 'each hold of an owner that reads counts as one reader',
    needs: ['permits'],
    async run(scene) {
      const [a, b] = await scene.clients();
      await a.granted('the owner', { ...OWNER, mode: 'read', permits: 2 });
      await b.granted('the owner, again,', { ...OWNER, mode: 'read', permits: 2 });
      await b.busy('the owner, a third time,', { ...OWNER, mode: 'read', permits: 2 });
    },
  },
  {
    name: 'an owner that reads is refused for writing, and keeps reading',
    async run(scene) {
      const [a, b] = await scene.clients();
      const reading = await a.granted('the owner', { ...OWNER, mode: 'read' });
      await b.refused('the owner, for writing,', 'upgrade', OWNER);
      const renewed = await a.renew(reading);
      promised(renewed.outcome === 'renewed', 'its hold to be alive', renewed);
      await b.granted('another reader', { mode: 'read' });
    },
  },
  {
    name: 'owners that differ in one character are different owners, and so is no owner',
    async run(scene) {
      const [a, b] = await scene.clients();
      await a.granted('the owner', { owner: '-' });
      const others = ['%2D', '%2d', ' -', '- ', '--', '–'];
      for (const owner of others) await b.busy(`the owner ${JSON.stringify(owner)}`, { owner });
      await b.busy('an attempt without an owner');
      await b.granted('the owner, again,', { owner: '-' });
    },
  },
];
