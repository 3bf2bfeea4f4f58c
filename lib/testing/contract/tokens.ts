import { TOKENS_OF_A_WRITER } from '../../core/store/lock-store.js';
import { type Hold, SHORT_MS } from './kit/client.js';
import { type PortCase } from './kit/port-case.js';
import { promised } from './kit/promised.js';

/** Checks that each token is a safe integer, and greater than the one before. */
function checkRising(holds: readonly Hold[]): void {
  const tokens = holds.map(({ fencingToken }) => fencingToken);
  promised(
    tokens.every((token) => Number.isSafeInteger(token) && token > 0),
    'tokens to be safe integers above 0',
    tokens,
  );
  promised(
    tokens.every((token, i) => i === 0 || token > tokens[i - 1]!),
    'each token to exceed the last one',
    tokens,
  );
}

/** Fencing tokens. */
export const TOKENS: readonly PortCase[] = [
  {
    name: 'fencing tokens rise with every grant, across clients and modes',
    async run(scene) {
      const [a, b] = await scene.clients();
      const holds: Hold[] = [];
      for (const mode of ['write', 'read', 'write', 'write', 'read', 'write'] as const) {
        const client = holds.length % 2 === 0 ? a : b;
        const hold = await client.eventuallyGranted('a request for a free lock', { mode });
        holds.push(hold);
        await client.release(hold);
      }
      checkRising(holds);
    },
  },
  {
    name: 'readers that are granted one after another get rising fencing tokens',
    async run(scene) {
      const [a, b, c] = await scene.clients();
      const holds: Hold[] = [];
      for (const client of [a, b, c]) holds.push(await client.granted('a reader', { mode: 'read' }));
      checkRising(holds);
    },
  },
  {
    name: 'a grant for writing reserves the tokens behind its own, if the store says so',
    async run(scene) {
      const [a, b] = await scene.clients();
      const reserved = a.store.reservesTokens ? TOKENS_OF_A_WRITER : 1;
      for (const next of [{}, { mode: 'read' }] as const) {
        const hold = await a.eventuallyGranted('the writer');
        await a.release(hold);
        const { fencingToken, ...rest } = await b.eventuallyGranted('the next', next);
        const least = hold.fencingToken + reserved;
        promised(fencingToken >= least, `a token of at least ${least}`, fencingToken);
        await b.release({ ...rest, fencingToken });
      }
    },
  },
  {
    name: 'a grant after a lease that ended has a greater fencing token',
    async run(scene) {
      const [a, b] = await scene.clients();
      const dead = await a.granted('the first', { leaseMs: SHORT_MS });
      checkRising([dead, await b.eventuallyGranted('the next')]);
    },
  },
  {
    name: 'a release and a lost renewal report the last fencing token of the lock',
    async run(scene) {
      const [a, b] = await scene.clients();
      const first = await a.granted('the first');
      const { lastToken } = await a.release(first);
      scene.lastToken(lastToken, first.fencingToken);
      const second = await b.eventuallyGranted('the second');
      const lost = await a.renew(first);
      promised(lost.outcome === 'lost', 'the renewal to be lost', lost);
      scene.lastToken(lost.lastToken, second.fencingToken);
    },
  },
];
