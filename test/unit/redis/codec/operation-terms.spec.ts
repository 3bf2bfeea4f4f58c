import * as fc from 'fast-check';
import { OperationTerms } from '../../../../lib/redis/codec/operation-terms.js';

const shared = { keepMs: '0000060000', channelPrefix: 'lock:wake:', countReceivers: 1 } as const;
const oneOf = fc.constantFrom;
const at = { kind: 'at', job: 'Reports.noon', ms: 1_000, calledAt: 0, rememberMs: 60_000, rerunOnLoss: false } as const;

const acquire = fc.record({
  owner: oneOf(undefined, 'me'),
  mode: oneOf('write' as const, 'read' as const),
  leaseMs: oneOf(10_000, 20_000),
  waiterLeaseMs: oneOf(0, 5_000),
  maxWaiters: oneOf(undefined, 3),
  permits: oneOf(0, 3),
  take: oneOf(undefined, 2),
  holder: oneOf('host:1', 'host:1 Reports.noon'),
  fair: fc.boolean(),
  claim: oneOf(undefined, undefined, at),
});
const renew = fc.record({ leaseMs: oneOf(10_000, 20_000), mode: oneOf('write' as const, 'read' as const) });
const release = fc.record({
  holdAtLeastMs: oneOf(0, 5),
  job: oneOf(undefined, 'Reports.noon'),
  runOutcome: oneOf(undefined, 'done' as const),
  unanswered: oneOf(undefined, true),
});
/** Nearly the same as the one before, most of the time. */
const inARow = <T extends object>(request: fc.Arbitrary<T>) =>
  fc.tuple(request, request, fc.nat()).map(([one, other, pick]) => {
    const field = Object.keys(one)[pick % Object.keys(one).length] as keyof T;
    return [one, { ...one, [field]: other[field] }, one];
  });

describe('the terms of operations', () => {
  it.each([
    ['acquires', inARow(acquire), (terms: OperationTerms, asked: any, i: number) => terms.ofAcquire(asked, i * 1_000)],
    ['renewals', inARow(renew), (terms: OperationTerms, asked: any) => terms.ofRenewal(asked)],
    ['releases', inARow(release), (terms: OperationTerms, asked: any) => terms.ofRelease(asked)],
  ] as const)(
    'of %s in a row are those that each would have alone, and one object while they are the same',
    (_, row, of) => {
      fc.assert(
        fc.property(row as fc.Arbitrary<object[]>, (requests) => {
          const terms = new OperationTerms(shared);
          for (const [i, request] of requests.entries())
            expect(of(terms, request, i).text).toBe(of(new OperationTerms(shared), request, i).text);
        }),
        { seed: 4_711, numRuns: 500 },
      );
      const terms = new OperationTerms(shared);
      const [sample] = fc.sample<object[]>(row, { seed: 1, numRuns: 1 })[0]!;
      const request = { ...sample, claim: undefined };
      expect(of(terms, { ...request }, 0)).toBe(of(terms, { ...request }, 9));
    },
  );
});
