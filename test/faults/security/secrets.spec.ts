import { inspect } from 'node:util';
import { LockConfigurationError, type RedisConnection } from '../../../lib/index.js';
import { eventually } from '../../support/waiting/eventually.js';
import { ownRedis } from '../../support/redis/own-redis.js';
import { closeAll, startApp } from '../../support/apps/lock-app.js';
import { allow, asLocks, PASSWORD, SECRET, spyOnLogs } from './support.js';
import { rejection } from '../../support/waiting/rejection.js';

const ENCODED = encodeURIComponent(PASSWORD);

/** Everything that an error can show, however it is logged. */
const textOf = (error: unknown): string => inspect(error, { depth: Infinity });

const FORMS: Record<string, (port: number) => RedisConnection> = {
  'a URL': (port) => `redis://locks:${ENCODED}@127.0.0.1:${port}`,
  options: (port) => ({ ...asLocks(port), host: '127.0.0.1' }),
};

describe('the password', () => {
  afterEach(closeAll);
  afterEach(() => jest.restoreAllMocks());

  const FAILURES = ['is unreachable', 'refuses the password', 'dies'] as const;
  const cases = Object.keys(FORMS).flatMap((form) => FAILURES.map((failure) => [form, failure] as const));

  /** What every call rejects with when Redis fails, and what was logged. */
  async function fail(form: string, failure: (typeof FAILURES)[number]) {
    const { lines } = spyOnLogs();
    const server = await ownRedis();
    await allow(server.admin, failure === 'refuses the password' ? ['resetpass', '+@all'] : ['~*', '&*', '+@all']);
    if (failure === 'is unreachable') await server.kill();
    const { locks } = await startApp({ connection: FORMS[form]!(server.port) });
    const lost = failure === 'dies' ? await locks.acquire('held', { leaseMs: 500 }) : null;
    if (failure === 'dies') await server.kill();
    const calls = [
      locks.withLock('k', { waitMs: 100 }, () => undefined),
      locks.inspect('k'),
      locks.forceRelease('k'),
      locks.list()[Symbol.asyncIterator]().next(),
    ];
    const errors: unknown[] = await Promise.all(calls.map((call) => rejection(call)));
    if (lost) await eventually(() => lost.signal.aborted);
    if (lost) errors.push(lost.signal.reason);
    return { lines: lines(), errors };
  }

  it.each(cases)('in %s is in no log line and in no error when Redis %s', async (form, failure) => {
    const { lines, errors } = await fail(form, failure);
    expect(lines).not.toEqual([]);
    expect(lines.filter((line) => SECRET.test(line))).toEqual([]);
    expect(errors.map(textOf).filter((text) => SECRET.test(text))).toEqual([]);
  });

  const MISTAKES: Record<string, unknown> = {
    'an unknown scheme': `reds://locks:${ENCODED}@host`,
    'a list': [`reds://locks:${ENCODED}@host`],
    'a URL object': new URL(`redis://locks:${ENCODED}@host`),
    'a promise': Promise.resolve(`redis://locks:${ENCODED}@host`),
  };
  it.each(Object.keys(MISTAKES))('is not shown when the connection is %s', async (mistake) => {
    const { lines } = spyOnLogs();
    const connection = MISTAKES[mistake] as RedisConnection;
    const error = await rejection(startApp({ connection }));
    expect(error).toBeInstanceOf(LockConfigurationError);
    expect([inspect(error), ...lines()].filter((text) => SECRET.test(text))).toEqual([]);
  });
});
