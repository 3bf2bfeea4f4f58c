import { type WakeUp } from '../../core/store/lock-store.js';
import {
  type Client,
  type Hold,
  it,
  LONG_MS,
  needing,
  type PortCase,
  promised,
  same,
  type Scene,
  SHORT_MS,
} from './kit.js';

const READ = { mode: 'read' } as const;

const SEMAPHORE = { mode: 'read', permits: 5 } as const;

type Waiting = Awaited<ReturnType<Client['waits']>>;

function checkPush(wakeUp: WakeUp, before: Hold, { request, serverTimeMs }: Waiting): void {
  if (wakeUp.kind !== 'granted') return same(wakeUp.kind, 'wake', 'the message to a waiter');
  promised(wakeUp.fencingToken > before.fencingToken, 'a token above that of the last holder', wakeUp);
  const mostMs = Math.min(request.leaseMs, request.waiterLeaseMs);
  promised(wakeUp.remainingMs > 0 && wakeUp.remainingMs <= mostMs, `a lease of at most ${mostMs} ms`, wakeUp);
  promised(wakeUp.serverTimeMs >= serverTimeMs, 'the time of the grant', wakeUp);
}

/** One hold for each key of a grant. */
const holdsOf = (hold: Hold): Hold[] =>
  hold.request.keys.map((key, i) => ({ ...hold, key, fencingToken: hold.fencingTokens[i]! }));

async function takeTurns(scene: Scene, client: Client, keys: readonly string[]): Promise<void> {
  for (let turn = 1; turn <= 3; turn += 1) {
    const [group] = client.store.groups(keys);
    const hold = await client.eventuallyGranted(`turn ${turn}`, { keys: group!, waiterLeaseMs: LONG_MS });
    await scene.time.pass(1);
    for (const one of holdsOf(hold)) await client.release(one);
  }
}

/** The tokens of two keys for the owner of one with a known token. */
async function tokensOfOwner(client: Client, keys: readonly string[], held: number): Promise<readonly number[]> {
  const request = { keys: [keys[held]!], owner: 'job 7' };
  // The token is not the first of its key.
  for (let turn = 1; turn <= 3; turn += 1)
    await client.release(await client.eventuallyGranted(`turn ${turn}`, request));
  const one = await client.eventuallyGranted('the owner of one', request);
  const { fencingTokens } = await client.granted('the owner, for both,', { ...request, keys });
  same(fencingTokens.length, 2, 'the number of tokens');
  same(fencingTokens[held], one.fencingToken, 'the token of the key that its owner held');
  return fencingTokens;
}

export const WAITING: readonly PortCase[] = [
  // The queue. All waiters repeat their requests, because some stores send no wake-ups.
  it('a request with a waiter lease of 0 does not join the queue', async (scene, a, b, c) => {
    await a.granted('the reader', READ);
    await b.busy('the writer');
    same((await a.store.inspect(scene.key)).waiters, 0, 'the number of waiters');
    await c.granted('a later reader', READ);
  }),
  it('waiters do not hold back a request that is not fair', async (_scene, a, b, c) => {
    await a.granted('the reader', READ);
    await b.waits('the writer');
    await c.granted('a reader that is not fair', { ...READ, fair: false });
  }),
  it('the lock of a holder that died goes to the next waiter', async (scene, a, b) => {
    const dead = await a.granted('the holder', { leaseMs: 2_000 });
    const { request } = await b.waits('the waiter');
    const next = await b.eventuallyGranted('the waiter', request);
    scene.notBefore('the lease', dead.serverTimeMs + 2_000, next);
    await scene.nobodyWaits(a);
    await b.release(next);
    await a.eventuallyGranted('another caller');
  }),
  ...needing(['permits'])([
    // Semaphores whose requests take several permits, and whose permits an operator sets.
    it('a request takes its number of permits, all of them or none, until its hold ends', async (_scene, a, b, c) => {
      const large = await a.granted('three of five permits', { ...SEMAPHORE, take: 3 });
      await b.busy('three others', { ...SEMAPHORE, take: 3 });
      await b.granted('the other two', { ...SEMAPHORE, take: 2 });
      await c.busy('one more', SEMAPHORE);
      await a.granted('the first three, again,', large.request);
      await c.busy('one more, still,', SEMAPHORE);
      await a.release(large);
      await a.release(large);
      await c.granted('three', { ...SEMAPHORE, take: 3 });
      await a.busy('one more, at last,', SEMAPHORE);
    }),
    it('the permits of an operator apply to all requests, until the operator removes them', async (scene, a, b) => {
      await a.store.setPermits(scene.key, 2);
      const first = await a.granted('a reader that counts five', SEMAPHORE);
      await b.granted('a reader that counts none', { mode: 'read' });
      const busy = await a.busy('a third one', SEMAPHORE);
      same(busy.permits, 2, 'the `permits` of a busy reply');
      await b.store.setPermits(scene.key, 3);
      await a.granted('the third one', SEMAPHORE);
      await b.store.setPermits(scene.key, 1);
      await a.release(first);
      await b.busy('another one, while two hold one permit,', SEMAPHORE);
      await b.store.setPermits(scene.key, null);
      await b.granted('one of five', SEMAPHORE);
    }),
    it('the state of a semaphore reports the used and the free permits', async (scene, a) => {
      const permits = async () => (await a.store.inspect(scene.key)).permits;
      same(await permits(), null, 'the permits of an unused lock');
      const hold = await a.granted('three of five permits', { ...SEMAPHORE, take: 3 });
      same(await permits(), { allowed: 5, used: 3, available: 2 }, 'the permits');
      const [holder] = (await a.store.inspect(scene.key)).holders;
      promised(holder?.take === 3, 'the holder to take three', holder);
      await a.store.setPermits(scene.key, 2);
      same(await permits(), { allowed: 2, used: 3, available: 0 }, 'the permits, when fewer are allowed than used,');
      await a.release(hold);
      same(await permits(), { allowed: 2, used: 0, available: 2 }, 'the permits of a free lock');
    }),
  ]),
  ...needing(['queue'])([
    // The queue. All waiters repeat their requests, because some stores send no wake-ups.
    it('an acquire that finds the lock busy joins the queue, and reports how many are ahead', async (scene, a, b, c) => {
      await a.granted('the holder');
      same((await b.waits('the first waiter')).ahead, 0, '`ahead` of the first waiter');
      same((await c.waits('the second waiter')).ahead, 1, '`ahead` of the second waiter');
      same((await a.store.inspect(scene.key)).waiters, 2, 'the number of waiters');
    }),
    it('waiters are served first in, first out, however often they send their request', async (_scene, a, b, c) => {
      const hold = await a.granted('the holder');
      const first = await b.waits('the first waiter');
      const second = await c.waits('the second waiter');
      same((await b.waits('the first waiter', first.request)).ahead, 0, '`ahead` of the first, after another request,');
      await a.release(hold);
      await c.busy('the second waiter', second.request);
      await a.busy('a later caller');
      const served = await b.eventuallyGranted('the first waiter', first.request);
      await b.release(served);
      await c.eventuallyGranted('the second waiter', second.request);
    }),
    it('an acquire with `maxWaiters` does not join a queue that has reached it, and reports that', async (scene, a, b, c) => {
      const bounded = { maxWaiters: 1 };
      const hold = await a.granted('the holder');
      const first = await b.waits('the first waiter', bounded);
      same(Boolean(first.isFull), false, '`isFull` of the first waiter');
      same((await c.waits('a second waiter', bounded)).isFull, true, '`isFull` of a second waiter');
      same(Boolean((await b.waits('the first waiter', first.request)).isFull), false, '`isFull` of the first, again,');
      same((await a.store.inspect(scene.key)).waiters, 1, 'the number of waiters');
      await b.giveBack(first.request.attempt);
      same(
        Boolean((await c.waits('a waiter after the first has left', bounded)).isFull),
        false,
        '`isFull`, after that,',
      );
      await a.release(hold);
    }),
    it('a waiting writer holds back later readers', async (_scene, a, b, c) => {
      const reading = await a.granted('the reader', READ);
      const writer = await b.waits('the writer');
      const later = await c.waits('a later reader', READ);
      await a.release(reading);
      await c.busy('the later reader, before the writer,', later.request);
      const writing = await b.eventuallyGranted('the writer', writer.request);
      await b.release(writing);
      await c.eventuallyGranted('the later reader', later.request);
    }),
    it('readers that wait side by side are served together, but not those behind a writer', async (_scene, a, b, c) => {
      const hold = await a.granted('the holder');
      const [first, second] = [await b.waits('a reader', READ), await c.waits('another reader', READ)];
      const writer = await a.waits('the writer');
      const last = await b.waits('the reader behind the writer', READ);
      await a.release(hold);
      await b.eventuallyGranted('the first reader', first.request);
      await c.eventuallyGranted('the second reader', second.request);
      await a.busy('the writer', writer.request);
      await b.busy('the reader behind the writer', last.request);
    }),
    it('a cancelled waiter lets those behind it pass', async (_scene, a, b, c) => {
      await a.granted('the reader', READ);
      const writer = await b.waits('the writer');
      const later = await c.waits('a later reader', READ);
      await b.giveBack(writer.request.attempt);
      await c.eventuallyGranted('the later reader', later.request);
    }),
    it('a waiter that died holds others back for its waiter lease, and no longer', async (scene, a, b, c) => {
      await a.granted('the reader', READ);
      const dead = await b.waits('the writer', { waiterLeaseMs: SHORT_MS });
      const served = await c.eventuallyGranted('a later reader', { ...READ, waiterLeaseMs: LONG_MS });
      scene.notBefore('the place of the writer', dead.serverTimeMs + SHORT_MS, served);
      same((await a.store.inspect(scene.key)).waiters, 0, 'the number of waiters');
    }),
    it('a waiter that sends its request again keeps its place for another waiter lease', async (_scene, a, b, c) => {
      await a.granted('the reader', READ);
      const first = await b.waits('the writer', { waiterLeaseMs: 3_000 });
      const later = await c.waits('a later reader', READ);
      await b.busyUntil(first.serverTimeMs + 3_300, 'the writer', first.request);
      await c.busy('the later reader', later.request);
    }),
  ]),
  ...needing(['severalKeys'])([
    // One acquire that names several keys.
    it('several keys are granted together, each with a fencing token, and released one by one', async (scene, a, b) => {
      const keys = scene.twoKeys(a);
      const holds = holdsOf(await a.granted('a request for both', { keys }));
      for (const hold of holds) {
        await a.keeps(hold);
        await b.busy(`the lock ${hold.key}`, { keys: [hold.key] });
      }
      for (const hold of holds) await a.ends(hold);
      await b.eventuallyGranted('a request for both', { keys });
    }),
    it('the fencing tokens of several keys are in the order of the keys', async (scene, a) => {
      for (const held of [0, 1]) {
        let round = 0;
        // Tokens of two keys may be equal accidentally, and then prove nothing.
        await scene.time.until('the tokens of two keys to differ', async () => {
          const tokens = await tokensOfOwner(a, scene.twoKeys(a, `${held}-${(round += 1)}`), held);
          return new Set(tokens).size === 2 || undefined;
        });
      }
    }),
    it('either all of several keys are granted, or none', async (scene, a, b, c) => {
      const keys = scene.twoKeys(a);
      for (const busy of keys) {
        const hold = await b.eventuallyGranted('the holder of one', { keys: [busy] });
        const waiting = await a.busy('a request for both', { keys });
        const free = keys.find((key) => key !== busy)!;
        const other = await c.granted('a request for the free one', { keys: [free] });
        for (const key of keys) await a.giveBack(waiting.request.attempt, { key });
        await b.release(hold);
        await c.release(other);
      }
    }),
    it('a waiter for several keys holds none of them, and is granted when all are free', async (scene, a, b) => {
      const keys = scene.twoKeys(a);
      const hold = await b.granted('the holder of the second', { keys: [keys[1]] });
      const { request } = await a.waits('a request for both', { keys });
      same((await b.store.inspect(keys[0])).mode, 'free', 'the mode of the first');
      const first = await b.granted('an unfair request for the first', { keys: [keys[0]], fair: false });
      await b.release(hold);
      same((await b.store.inspect(keys[1])).mode, 'free', 'the mode of the second');
      await b.release(first);
      const both = await a.eventuallyGranted('a request for both', request);
      promised(both.fencingTokens[1]! > hold.fencingToken, 'a greater token', both);
    }),
    it('requests for the same keys in different orders do not deadlock', async (scene, a, b) => {
      const keys = scene.twoKeys(a);
      await Promise.all([takeTurns(scene, a, keys), takeTurns(scene, b, keys.toReversed())]);
    }),
  ]),
  ...needing(['wakeUps'])([
    // The messages that the store sends by itself.
    it('a release wakes a waiter, which has the lock then or on its next request', async (_scene, a, b) => {
      const hold = await a.granted('the holder');
      const waiting = await b.waits('the waiter');
      await a.release(hold);
      const wakeUp = await b.hears('the waiter', waiting.request.attempt);
      checkPush(wakeUp, hold, waiting);
      const next = await b.eventuallyGranted('the waiter', waiting.request);
      promised(next.fencingToken > hold.fencingToken, 'a greater token', next.fencingToken);
    }),
    it('wake-ups reach only the client of their attempt', async (scene, a, b, c) => {
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
      same([a, b, c].map(isForeign), [false, false, false], 'the clients that received a message for another client');
    }),
    it('a client hears nothing before open(), which can be called twice', async (scene) => {
      const client = await scene.silentClient();
      same(client.listenings, 0, 'the number of `onListening` before `open`');
      client.store.open();
      client.store.open();
      await scene.time.until('`onListening` after `open`', () => client.listenings > 0 || undefined);
    }),
  ]),
  ...needing(['permits', 'queue'])([
    // Semaphores whose requests take several permits, and whose permits an operator sets.
    it('a waiter for many permits is not overtaken by waiters for few', async (_scene, a, b, c) => {
      const hold = await a.granted('three of five permits', { ...SEMAPHORE, take: 3 });
      const { request } = await b.waits('four', { ...SEMAPHORE, take: 4 });
      await c.busy('one, though two are free,', SEMAPHORE);
      await a.release(hold);
      await b.eventuallyGranted('four', request);
      await c.granted('one', SEMAPHORE);
    }),
    it('a request that takes more permits than an operator has set is refused, also when it waits', async (scene, a, b, c) => {
      await a.granted('one of five permits', SEMAPHORE);
      const { request } = await b.waits('five', { ...SEMAPHORE, take: 5 });
      await a.store.setPermits(scene.key, 3);
      // It holds no other waiter back.
      await c.eventuallyGranted('one behind it', SEMAPHORE);
      const refused = await b.refused('five', 'permits', request);
      same(refused.permits, 3, 'the `permits` of the refusal');
      await a.store.setPermits(scene.key, 0);
      await b.refused('one of none', 'permits', { mode: 'read' });
    }),
    it('more permits admit waiters', async (scene, a, b) => {
      await a.store.setPermits(scene.key, 1);
      await a.granted('the only permit', { mode: 'read' });
      const { request } = await b.waits('another', { mode: 'read' });
      await a.store.setPermits(scene.key, 2);
      await b.eventuallyGranted('the other', request);
    }),
  ]),
  ...needing(['queue', 'severalKeys'])([
    // One acquire that names several keys.
    it('a waiter for several keys holds back no callers of the keys after the first busy one', async (scene, a, b, c) => {
      const keys = scene.twoKeys(a);
      const hold = await b.granted('the holder of the second', { keys: [keys[1]] });
      const { request } = await a.waits('a request for both', { keys });
      await c.granted('an unfair request for the first', { keys: [keys[0]], fair: false });
      await b.release(hold);
      await a.busy('the request for both', request);
      await b.eventuallyGranted('another holder of the second', { keys: [keys[1]] });
    }),
  ]),
  ...needing(['queue', 'wakeUps'])([
    // The messages that the store sends by itself.
    it('a pushed grant is a hold: its token renews it to the full lease, and releases it', async (scene, a, b, c) => {
      const hold = await a.granted('the holder');
      const { request } = await b.waits('the waiter', { waiterLeaseMs: 10_000 });
      await a.release(hold);
      const wakeUp = await b.hears('the waiter', request.attempt);
      if (wakeUp.kind !== 'granted') return;
      const pushed = { key: scene.key, attempt: request.attempt, fencingToken: wakeUp.fencingToken, request };
      await c.busy('another caller');
      const renewed = await b.renew(pushed);
      promised(renewed.outcome === 'renewed' && renewed.remainingMs > 10_000, 'it to be renewed', renewed);
      const again = await b.granted('the same attempt', request);
      same(again.fencingToken, wakeUp.fencingToken, 'the token of the same attempt');
      await b.ends(again);
    }),
    it('a grant that is pushed to a dead waiter lasts for its waiter lease, and no longer', async (scene, a, b, c) => {
      const hold = await a.granted('the holder');
      const dead = await b.waits('the waiter', { waiterLeaseMs: SHORT_MS, leaseMs: LONG_MS });
      await a.release(hold);
      const next = await c.eventuallyGranted('the next', { waiterLeaseMs: LONG_MS });
      const pushed = b.heard.find(({ attempt }) => attempt === dead.request.attempt)?.wakeUp;
      if (pushed?.kind !== 'granted') return;
      scene.notBefore('the pushed grant', pushed.serverTimeMs + pushed.remainingMs, next);
    }),
  ]),
  ...needing(['permits', 'queue', 'wakeUps'])([
    // Semaphores whose requests take several permits, and whose permits an operator sets.
    it('more permits wake waiters', async (scene, a, b, c) => {
      await a.store.setPermits(scene.key, 2);
      await a.granted('one of two permits', { mode: 'read' });
      const { request } = await b.waits('two', { mode: 'read', take: 2 });
      const { request: later } = await c.waits('one behind it', { mode: 'read' });
      await a.store.setPermits(scene.key, 1);
      await b.refused('two of one', 'permits', request);
      await scene.reports('the number of waiters', 1, async () => (await a.store.inspect(scene.key)).waiters);
      await a.store.setPermits(scene.key, 2);
      await c.hears('who fits', later.attempt);
    }),
  ]),
  ...needing(['queue', 'severalKeys', 'wakeUps'])([
    // One acquire that names several keys.
    it('a waiter for several keys is woken each time when the one that it waits for becomes free', async (scene, a, b, c) => {
      const keys = scene.twoKeys(a);
      const second = { keys: [keys[1]] };
      let hold = await b.granted('the holder of the second', second);
      const { request } = await a.waits('a request for both', { keys });
      for (let turn = 1; turn <= 3; turn += 1) {
        a.heard.length = 0;
        await b.release(hold);
        same((await a.hears('the waiter', request.attempt)).kind, 'wake', 'the message of the waiter');
        hold = await b.granted('a faster caller', { ...second, fair: false });
        await a.busy('the waiter', request);
      }
      await b.release(hold);
      await a.eventuallyGranted('the waiter', request);
      await c.busy('another caller', { keys });
    }),
  ]),
];
