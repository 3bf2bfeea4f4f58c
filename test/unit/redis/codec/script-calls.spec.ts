import { type AcquireRequest, type ReleaseRequest, type RenewRequest } from '../../../../lib/core/store/lock-store.js';
import { type Operation } from '../../../../lib/redis/codec/script-calls.js';
import { lockCalls } from '../../../support/redis/lock-commands.js';

const HOLD = { key: 'k', attempt: 'c.1', owner: 'o', mode: 'write', leaseMs: 9_000, holder: 'web-1:42' } as const;
const ACQUIRE: AcquireRequest = {
  ...HOLD,
  keys: ['k'],
  waiterLeaseMs: 0,
  maxWaiters: 0,
  permits: 0,
  take: 1,
  fair: true,
};
const RELEASE: ReleaseRequest = { ...HOLD, holdAtLeastMs: 0, runOutcome: 'done', job: 'Jobs.run' };
const RENEW: RenewRequest = { ...HOLD, fencingToken: 7, timeoutMs: 500 };

/** What consecutive requests of one kind share, and the fields that it contains. */
function expectTerms<Request>(
  command: (request: Request) => Operation,
  request: Request,
  changes: Partial<Request>,
): void {
  const { terms } = command(request);
  expect(command({ ...request }).terms).toBe(terms);
  for (const [field, value] of Object.entries(changes)) {
    expect([field, command({ ...request, [field]: value }).terms.text]).not.toEqual([field, terms.text]);
    expect(command(request).terms.text).toBe(terms.text);
  }
}

describe('the terms of a request', () => {
  it('are those of the acquire before if no field differs', () => {
    const changes = { owner: 'p', mode: 'read', leaseMs: 1, waiterLeaseMs: 1, maxWaiters: 1 } as const;
    const others = { permits: 1, take: 2, holder: 'web-2:42', fair: false };
    expectTerms((request) => lockCalls.acquire(request, 500, 0), ACQUIRE, { ...changes, ...others });
  });

  it('are those of the release before if no field differs', () => {
    const changes = { holdAtLeastMs: 1, runOutcome: 'failed', job: 'Jobs.go', unanswered: true } as const;
    expectTerms((request) => lockCalls.release(request, 500), RELEASE, changes);
  });

  it('are those of the renewal before if no field differs', () => {
    const changes = { leaseMs: 1, mode: 'read', hasNewHolder: true } as const;
    expectTerms((request) => lockCalls.renew(request), RENEW, changes);
    const noted = { ...RENEW, hasNewHolder: true };
    expectTerms((request) => lockCalls.renew(request), noted, { holder: 'web-2:42' });
  });
});
