import { type AcquireRequest, type ReleaseRequest, type RenewRequest } from '../../../../lib/core/store/lock-store.js';
import { OperationTerms } from '../../../../lib/redis/codec/operation-terms.js';

const shared = { keepMs: '0000060000', channelPrefix: 'lock:wake:', countReceivers: 1 } as const;

const acquire: Omit<AcquireRequest, 'keys' | 'attempt'> = {
  owner: undefined,
  mode: 'write',
  leaseMs: 10_000,
  waiterLeaseMs: 5_000,
  fair: true,
  permits: 0,
  holder: 'host:1',
};
const renew = { leaseMs: 10_000, mode: 'write' } satisfies Partial<RenewRequest>;
const release: Pick<ReleaseRequest, 'holdAtLeastMs' | 'job' | 'runOutcome' | 'unanswered'> = { holdAtLeastMs: 0 };
const claim = {
  kind: 'at',
  job: 'Reports.noon',
  ms: 1_000,
  calledAt: 0,
  rememberMs: 60_000,
  rerunOnLoss: false,
} as const;

/** The text of the terms that nothing was remembered for. */
const fresh = (make: (terms: OperationTerms) => { readonly text: string }): string =>
  make(new OperationTerms(shared)).text;

describe('the terms of operations', () => {
  let terms: OperationTerms;

  beforeEach(() => {
    terms = new OperationTerms(shared);
  });

  it('are one object for operations in a row that ask for the same', () => {
    const first = [terms.ofAcquire({ ...acquire }, 0), terms.ofRenewal({ ...renew }), terms.ofRelease({ ...release })];
    const second = [terms.ofAcquire({ ...acquire }, 9), terms.ofRenewal({ ...renew }), terms.ofRelease({ ...release })];
    for (const [i, one] of second.entries()) expect(one).toBe(first[i]);
  });

  it.each([
    { owner: 'me' },
    { mode: 'read' },
    { leaseMs: 20_000 },
    { waiterLeaseMs: 0 },
    { fair: false },
    { permits: 3 },
    { holder: 'host:1 Reports.noon' },
    { claim },
  ] satisfies Partial<AcquireRequest>[])('of an acquire are its own with %j', (other) => {
    terms.ofAcquire(acquire, 0);
    const changed = terms.ofAcquire({ ...acquire, ...other }, 0).text;
    expect(changed).not.toBe(fresh((one) => one.ofAcquire(acquire, 0)));
    expect(changed).toBe(fresh((one) => one.ofAcquire({ ...acquire, ...other }, 0)));
    expect(terms.ofAcquire(acquire, 0).text).toBe(fresh((one) => one.ofAcquire(acquire, 0)));
  });

  it('of an acquire for a fire have its present age', () => {
    const [first, second] = [1_000, 2_000].map((now) => terms.ofAcquire({ ...acquire, claim }, now).text);
    expect(second).not.toBe(first);
    expect(second).toBe(fresh((one) => one.ofAcquire({ ...acquire, claim }, 2_000)));
  });

  it.each([{ leaseMs: 20_000 }, { mode: 'read' }] satisfies Partial<RenewRequest>[])(
    'of a renewal are its own with %j',
    (other) => {
      const before = terms.ofRenewal(renew).text;
      const changed = terms.ofRenewal({ ...renew, ...other }).text;
      expect(changed).not.toBe(before);
      expect(changed).toBe(fresh((one) => one.ofRenewal({ ...renew, ...other })));
    },
  );

  it.each([
    { holdAtLeastMs: 5 },
    { job: 'Reports.noon' },
    { runOutcome: 'done' },
    { unanswered: true },
  ] satisfies Partial<ReleaseRequest>[])('of a release are its own with %j', (other) => {
    const before = terms.ofRelease(release).text;
    const changed = terms.ofRelease({ ...release, ...other }).text;
    expect(changed).not.toBe(before);
    expect(changed).toBe(fresh((one) => one.ofRelease({ ...release, ...other })));
  });
});
