import { LONG_MS, SHORT_MS } from './kit/client.js';
import { type PortCase } from './kit/port-case.js';
import { promised, same } from './kit/promised.js';

/** What a store reports of one lock. */
export const INSPECT: readonly PortCase[] = [
  {
    name: 'inspect() reports a lock that was never held as free, with a fencing token of 0',
    async run(scene) {
      const { store } = await scene.client();
      const free = { key: scene.key, mode: 'free', holders: [], waiters: 0, queue: [], permits: null, fencingToken: 0 };
      same(await store.inspect(scene.key), free, 'the state');
    },
  },
  {
    name: 'inspect() reports the writer, since when it holds the lock and for how long',
    async run(scene) {
      const [a, b] = await scene.clients();
      const { attempt, fencingToken, serverTimeMs } = await a.granted('the writer');
      const { holders, ...state } = await b.store.inspect(scene.key);
      scene.lastToken(state.fencingToken, fencingToken);
      same([state.key, state.mode, state.waiters, holders.length], [scene.key, 'write', 0, 1], 'the state');
      const { since, remainingMs, ...holder } = holders[0]!;
      const told = { host: 'host-1', pid: 4711, where: 'Orders.pay', note: '' };
      same(holder, { owner: attempt, attempt, mode: 'write', take: 1, ...told, fencingToken }, 'the holder');
      scene.sameTime(since.getTime(), serverTimeMs, '`since`');
      promised(remainingMs > 0 && remainingMs <= LONG_MS, 'the rest of the lease', remainingMs);
    },
  },
  {
    name: 'inspect() reports all readers, by owner or attempt',
    async run(scene) {
      const [a, b, c] = await scene.clients();
      const named = await a.granted('a reader', { mode: 'read', owner: 'job 7' });
      const other = await b.granted('another reader', { mode: 'read' });
      const { mode, holders } = await c.store.inspect(scene.key);
      same(mode, 'read', 'the mode');
      const told = holders.map(({ owner, attempt, mode }) => `${owner} ${attempt} ${mode}`).toSorted();
      const expected = [`job 7 ${named.attempt} read`, `${other.attempt} ${other.attempt} read`];
      same(told, expected.toSorted(), 'the holders');
    },
  },
  {
    name: 'inspect() leaves out holds whose lease has ended, and keeps the last fencing token',
    async run(scene) {
      const [a, b] = await scene.clients();
      const dead = await a.granted('the holder', { leaseMs: SHORT_MS });
      const { holders, fencingToken } = await scene.time.until('the lease to end', async () => {
        const state = await b.store.inspect(scene.key);
        return state.mode === 'free' ? state : undefined;
      });
      same(holders, [], 'the holders');
      scene.lastToken(fencingToken, dead.fencingToken);
    },
  },
  {
    name: 'inspect() reports the waiters in their order, since when and until when they wait',
    needs: ['queue'],
    async run(scene) {
      const [a, b] = await scene.clients();
      await a.granted('the holder');
      const first = await b.waits('the first waiter', { holder: 'host-2:7 Jobs.run\t5000\tthe note' });
      const second = await b.waits('the second waiter', { mode: 'read', owner: 'job 7', holder: 'host-3:8' });
      await b.waits('the first waiter again', first.request);
      const { queue } = await a.store.inspect(scene.key);
      const told = queue.map(({ since: _since, until: _until, ...waiter }) => waiter);
      const { attempt } = first.request;
      const callers = [
        { host: 'host-2', pid: 7, where: 'Jobs.run', note: 'the note', owner: attempt, attempt },
        { host: 'host-3', pid: 8, where: '', note: '', owner: 'job 7', attempt: second.request.attempt },
      ] as const;
      same(
        told,
        [
          { ...callers[0], mode: 'write', take: 1, place: 1 },
          { ...callers[1], mode: 'read', take: 1, place: 2 },
        ],
        'the queue',
      );
      scene.sameTime(queue[0]!.since.getTime(), first.serverTimeMs, '`since`');
      same(queue[0]!.until?.getTime(), queue[0]!.since.getTime() + 5_000, '`until`');
      same(queue[1]!.until, null, '`until` of a wait without end');
    },
  },
  {
    name: 'inspect() leaves out waiters whose waiter lease has ended',
    needs: ['queue'],
    async run(scene) {
      const [a, b] = await scene.clients();
      await a.granted('the holder');
      await b.waits('the waiter', { waiterLeaseMs: SHORT_MS });
      await scene.nobodyWaits(a);
    },
  },
];
