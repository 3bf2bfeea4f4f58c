import { type PortCase } from './kit/port-case.js';
import { type Scene } from './kit/scene.js';
import { type Client, type Hold, LONG_MS } from './kit/client.js';
import { promised, same } from './kit/promised.js';

/** One hold for each key of a grant. */
const holdsOf = (hold: Hold): Hold[] =>
  hold.request.keys.map((key, i) => ({ ...hold, key, fencingToken: hold.fencingTokens[i]! }));

/** Locks both keys a few times. */
async function takeTurns(scene: Scene, client: Client, keys: readonly string[]): Promise<void> {
  for (let turn = 1; turn <= 3; turn += 1) {
    const [group] = client.store.groups(keys);
    const hold = await client.eventuallyGranted(`turn ${turn}`, { keys: group!, waiterLeaseMs: LONG_MS });
    await scene.time.pass(1);
    for (const one of holdsOf(hold)) await client.release(one);
  }
}

/** The tokens of two keys for the owner of one, whose token is known. */
async function tokensOfOwner(client: Client, keys: readonly string[], held: number): Promise<readonly number[]> {
  const request = { keys: [keys[held]!], owner: 'job 7' };
  // Its token is not the first of its key.
  for (let turn = 1; turn <= 3; turn += 1)
    await client.release(await client.eventuallyGranted(`turn ${turn}`, request));
  const one = await client.eventuallyGranted('the owner of one', request);
  const { fencingTokens } = await client.granted('the owner, for both,', { ...request, keys });
  same(fencingTokens.length, 2, 'the number of tokens');
  same(fencingTokens[held], one.fencingToken, 'the token of the key that its owner held');
  return fencingTokens;
}

/** One acquire that names several keys. */
export const SEVERAL_KEYS: readonly PortCase[] = [
  {
    name: 'several keys are granted together, each with a fencing token, and released one by one',
    needs: ['severalKeys'],
    async run(scene) {
      const [a, b] = await scene.clients();
      const keys = scene.twoKeys(a);
      const holds = holdsOf(await a.granted('a request for both', { keys }));
      for (const hold of holds) {
        const renewed = await a.renew(hold);
        promised(renewed.outcome === 'renewed', `the token of ${hold.key} to renew it`, renewed);
        await b.busy(`the lock ${hold.key}`, { keys: [hold.key] });
      }
      for (const hold of holds) same((await a.release(hold)).outcome, 'released', 'the outcome of a release');
      await b.eventuallyGranted('a request for both', { keys });
    },
  },
  {
    name: 'the fencing tokens of several keys are in the order of the keys',
    needs: ['severalKeys'],
    async run(scene) {
      const a = await scene.client();
      for (const held of [0, 1]) {
        let round = 0;
        // Tokens of two keys may be equal by chance, and then prove nothing.
        await scene.time.until('the tokens of two keys to differ', async () => {
          const tokens = await tokensOfOwner(a, scene.twoKeys(a, `${held}-${(round += 1)}`), held);
          return new Set(tokens).size === 2 || undefined;
        });
      }
    },
  },
  {
    name: 'either all of several keys are granted, or none',
    needs: ['severalKeys'],
    async run(scene) {
      const [a, b, c] = await scene.clients();
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
    },
  },
  {
    name: 'a waiter for several keys holds none of them, and is granted when all are free',
    needs: ['severalKeys'],
    async run(scene) {
      const [a, b] = await scene.clients();
      const keys = scene.twoKeys(a);
      const hold = await b.granted('the holder of the second', { keys: [keys[1]] });
      const { request } = await a.waits('a request for both', { keys });
      same((await b.store.inspect(keys[0])).mode, 'free', 'the mode of the first');
      const first = await b.granted('who is not fair, of the first,', { keys: [keys[0]], fair: false });
      await b.release(hold);
      same((await b.store.inspect(keys[1])).mode, 'free', 'the mode of the second');
      await b.release(first);
      const both = await a.eventuallyGranted('a request for both', request);
      promised(both.fencingTokens[1]! > hold.fencingToken, 'a greater token', both);
    },
  },
  {
    name: 'a waiter for several keys is woken each time when the one that it waits for becomes free',
    needs: ['severalKeys', 'queue', 'wakeUps'],
    async run(scene) {
      const [a, b, c] = await scene.clients();
      const keys = scene.twoKeys(a);
      const second = { keys: [keys[1]] };
      let hold = await b.granted('the holder of the second', second);
      const { request } = await a.waits('a request for both', { keys });
      for (let turn = 1; turn <= 3; turn += 1) {
        a.heard.length = 0;
        await b.release(hold);
        same((await a.hears('the waiter', request.attempt)).kind, 'wake', 'what the waiter hears');
        hold = await b.granted('who is faster', { ...second, fair: false });
        await a.busy('the waiter', request);
      }
      await b.release(hold);
      await a.eventuallyGranted('the waiter', request);
      await c.busy('somebody else', { keys });
    },
  },
  {
    name: 'a waiter for several keys holds back nobody behind the first busy one',
    needs: ['severalKeys', 'queue'],
    async run(scene) {
      const [a, b, c] = await scene.clients();
      const keys = scene.twoKeys(a);
      const hold = await b.granted('the holder of the second', { keys: [keys[1]] });
      const { request } = await a.waits('a request for both', { keys });
      await c.granted('who is not fair, of the first,', { keys: [keys[0]], fair: false });
      await b.release(hold);
      await a.busy('the request for both', request);
      await b.eventuallyGranted('another holder of the second', { keys: [keys[1]] });
    },
  },
  {
    name: 'requests for the same keys in different orders do not deadlock',
    needs: ['severalKeys'],
    async run(scene) {
      const [a, b] = await scene.clients();
      const keys = scene.twoKeys(a);
      await Promise.all([takeTurns(scene, a, keys), takeTurns(scene, b, keys.toReversed())]);
    },
  },
];
