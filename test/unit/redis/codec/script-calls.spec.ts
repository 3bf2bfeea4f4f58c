import { type AcquireRequest, type ReleaseRequest, type RenewRequest } from '../../../../lib/core/store/lock-store.js';
import { type Operands } from '../../../../lib/redis/client/redis-client.js';
import { RedisKeys } from '../../../../lib/redis/codec/redis-keys.js';
import { type Operation, ScriptCalls } from '../../../../lib/redis/codec/script-calls.js';
import { OPERATOR_TIMEOUT_MS } from '../../../../lib/redis/timing.js';
import { createLockScripts } from '../../../../lib/redis/scripts/lock-scripts.js';
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

/** The operands of a command, with the text of its terms in lines. */
const textOf = ({ operands }: { readonly operands: Operands }) => operands.map((one) => String(one).split('\n'));
const HEAD = '600000 1 lock:wake:';
const TIMES = { sentMicros: 5, untilMicros: 9 };

describe('the text of a command', () => {
  const acquireOf = (change: Partial<AcquireRequest>) => lockCalls.acquire({ ...ACQUIRE, ...change }, 500, 90);
  const claim = { job: 'a b', kind: 'slot', ms: 60, calledAt: 20, rememberMs: 7 } as const;
  it.each<[string, ReturnType<typeof lockCalls.alone>, string, string]>([
    ['an acquire', lockCalls.alone(acquireOf({})), '1 c.1', `a ${HEAD}\nw 1 9000 0 0 0 1\nweb-1:42\no\n`],
    [
      'one that reads, out of order and without an owner',
      lockCalls.alone(acquireOf({ mode: 'read', fair: false, owner: undefined, holder: 'a\nb', waiterLeaseMs: 3 })),
      '1 c.1',
      `a ${HEAD}\nr 0 9000 3 0 0 1\na b\n-\n`,
    ],
    [
      'one of a fire',
      lockCalls.alone(acquireOf({ owner: '-', claim: { ...claim, rerunOnLoss: true } })),
      '1 c.1',
      `a ${HEAD}\nw 1 9000 0 0 0 1\nweb-1:42\n%2D\na%20b slot 60 70 7 1`,
    ],
    [
      'one of a fire that is not repeated',
      lockCalls.alone(acquireOf({ claim: { ...claim, rerunOnLoss: false } })),
      '1 c.1',
      `a ${HEAD}\nw 1 9000 0 0 0 1\nweb-1:42\no\na%20b slot 60 70 7 0`,
    ],
    ['a release', lockCalls.alone(lockCalls.release(RELEASE, 500)), '1 c.1', `r ${HEAD}\n0 0 Jobs.run done`],
    [
      'one that is repeated',
      lockCalls.alone(lockCalls.release({ ...HOLD, holdAtLeastMs: 5, unanswered: true, isRepeated: true }, 500)),
      '1 c.1 1',
      `r ${HEAD}\n1 5 - -`,
    ],
    ['a renewal', lockCalls.alone(lockCalls.renew(RENEW)), '1 c.1 7', `n ${HEAD}\nw 9000`],
    [
      'one with a new holder',
      lockCalls.alone(lockCalls.renew({ ...RENEW, hasNewHolder: true })),
      '1 c.1 7',
      `n ${HEAD}\nw 9000\nweb-1:42`,
    ],
    [
      'an adoption',
      lockCalls.adopt({ ...RENEW, attempt: 'c.2', from: 'c.1', unanswered: true }, 500),
      '1 c.2 7',
      `d ${HEAD}\nc.1 9000 1\nweb-1:42`,
    ],
    ['a write-back', lockCalls.writeBack({ ...HOLD, fencingToken: 7 }, 8, 500), '1 c.1 7', `w ${HEAD}\n8`],
    ['a forced release', lockCalls.forceRelease('k', 'c.1', 6), '1 c.1', `f ${HEAD}\n6`],
    ['a change of the permits', lockCalls.setPermits('k', 'c.1', 3), '1 c.1', `p ${HEAD}\n3`],
    ['one that leaves them to the requests', lockCalls.setPermits('k', 'c.1', null), '1 c.1', `p ${HEAD}\n-`],
  ])('is that of scripts/operate.lua: %s', (_what, call, own, terms) => {
    expect(textOf(call)).toEqual([['1'], ['lock:k'], ['0'], ['0'], [own, ''], terms.split('\n')]);
    expect(call).toMatchObject({ key: 'k', echo: own.split(' ')[1] });
  });

  it('has the keys of several locks, and the times of an acquire', () => {
    const several = acquireOf({ keys: ['k', 'j'] });
    expect(textOf(lockCalls.alone(several, TIMES)).slice(0, 5)).toEqual([['2'], ['lock:k'], ['lock:j'], ['5'], ['9']]);
    expect(lockCalls.alone(several).key).toBe('k, j');
    expect(lockCalls.inspect('k')).toMatchObject({ operands: [1, 'lock:k'], key: 'k' });
  });

  it('has each text of terms once for several operations', () => {
    const [write, read] = [acquireOf({}), acquireOf({ mode: 'read' })];
    const again = acquireOf({ attempt: 'c.2' });
    expect(again.terms).not.toBe(write.terms);
    const release = lockCalls.release({ ...RELEASE, key: 'j', attempt: 'c.3' }, 500);
    const all = [write, read, again, { ...write, attempt: 'c.4' }, release];
    const [count, ...rest] = textOf(lockCalls.together(all, TIMES));
    expect([count, rest.slice(0, 5).flat()]).toEqual([['5'], ['lock:k', 'lock:k', 'lock:k', 'lock:k', 'lock:j']]);
    expect(rest.slice(5, 8)).toEqual([['5'], ['9'], ['1 c.1', '2 c.1', '1 c.2', '1 c.4', '3 c.3', '']]);
    expect(rest.slice(8)).toEqual([write, read, release].map(({ terms }) => terms.text.split('\n')));
  });

  it('has the time limit of an operator by default, or the given one', () => {
    const options = { keepMs: 5, channelPrefix: 'c', countReceivers: true };
    const calls = new ScriptCalls(createLockScripts(), new RedisKeys('lock:'), { ...options, operatorTimeoutMs: 77 });
    const limits = [lockCalls, calls].map((all) => [
      all.inspect('k').timeoutMs,
      all.setPermits('k', 'c.1', 1).timeoutMs,
    ]);
    expect(limits).toEqual([
      [OPERATOR_TIMEOUT_MS, OPERATOR_TIMEOUT_MS],
      [77, 77],
    ]);
  });

  it('reports whether the sender counts the receivers of its messages', () => {
    const calls = new ScriptCalls(createLockScripts(), new RedisKeys('lock:'), {
      keepMs: 5,
      channelPrefix: 'c',
      countReceivers: false,
    });
    expect(calls.release(RELEASE, 500).terms.text).toBe('r 5 0 c\n0 0 Jobs.run done');
  });
});
