import { inspect } from 'node:util';
import { LockStoreError } from '../../../lib/core/lock.errors.js';
import { isRetryable, readRedirect, storeError } from '../../../lib/redis/redis-errors.js';

const error = (name: string, message: string): Error => Object.assign(new Error(message), { name });

describe('a failure of Redis', () => {
  it.each([
    'LOADING Redis is loading the dataset in memory',
    "READONLY You can't write against a read only replica.",
    'ERR Error running script (call to f_1): @user_script:9: READONLY You can`t write against a read only replica.',
    'MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to no.',
    'CLUSTERDOWN The cluster is down',
    'TRYAGAIN Multiple keys request during rehashing of slot',
    'BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.',
    "OOM command not allowed when used memory > 'maxmemory'.",
    'NOREPLICAS Not enough good replicas to write.',
    'MISCONF Redis is configured to save RDB snapshots',
    'NOSCRIPT No matching script. Please use EVAL.',
    'ERR max number of clients reached',
    'MOVED 3999 127.0.0.1:6381',
  ])('is retryable: %s', (message) => {
    expect(isRetryable(error('ReplyError', message))).toBe(true);
  });

  it.each([
    ['Error', 'connect ECONNREFUSED 127.0.0.1:6379'],
    ['Error', 'Connection is closed.'],
    ['MaxRetriesPerRequestError', 'Reached the max retries per request limit (which is 1).'],
    ['ClusterAllFailedError', 'Failed to refresh slots cache.'],
    ['Error', 'no answer within 250 ms'],
  ])('is retryable: %s %s', (name, message) => {
    expect(isRetryable(error(name, message))).toBe(true);
  });

  it.each([
    'WRONGPASS invalid username-password pair or user is disabled.',
    'NOAUTH Authentication required.',
    "NOPERM User app has no permissions to run the 'evalsha' command",
    'WRONGTYPE Operation against a key holding the wrong kind of value',
    'ERR Error compiling script (new function): user_script:1: unexpected symbol',
    "ERR unknown command 'EVALSHA'",
  ])('is not retryable: %s', (message) => {
    expect(isRetryable(error('ReplyError', message))).toBe(false);
  });

  it('becomes a LockStoreError that names the lock and what to do, with the cause', () => {
    const down = error('Error', 'connect ECONNREFUSED');
    expect(storeError('k', down)).toMatchObject({ code: 'LOCK_STORE', key: 'k', cause: down, retryable: true });
    expect(storeError('k', down).message).toBe(
      'Redis could not serve the lock "k": connect ECONNREFUSED. Is Redis reachable?',
    );
    const refused = storeError('k', error('ReplyError', 'WRONGPASS invalid'));
    expect(refused).toMatchObject({ retryable: false });
    expect(refused.message).toContain('Check the credentials');
  });

  it.each([
    ['of a server', (error: Error) => error],
    [
      'of a node of a cluster',
      (error: Error) => Object.assign(new Error('Failed to refresh'), { lastNodeError: error }),
    ],
  ])('has no log-in in its cause, which holds a password: %s', (_what, wrap) => {
    for (const name of ['auth', 'hello', 'AUTH']) {
      const command = { name, args: ['locks', 'a-password'] };
      const told = wrap(Object.assign(error('ReplyError', 'WRONGPASS invalid'), { command }));
      const { cause } = storeError('k', told);
      expect(inspect(cause, { depth: 9 })).not.toContain('a-password');
      expect(cause).toMatchObject({ name: told.name, message: told.message, stack: told.stack });
    }
    const command = { name: 'evalsha', args: ['sha'] };
    const kept = wrap(Object.assign(error('ReplyError', 'OOM'), { command }));
    expect(storeError('k', kept).cause).toBe(kept);
  });

  it('tells why the connection failed, where the error of the command does not', () => {
    const unsent = error('MaxRetriesPerRequestError', 'Reached the max retries per request limit (which is 1).');
    const refused = error('ReplyError', 'WRONGPASS invalid');
    const down = error('Error', 'connect ECONNREFUSED');
    expect(storeError('k', unsent, down)).toMatchObject({ cause: unsent, retryable: true });
    expect(storeError('k', unsent, down).message).toContain('(which is 1): connect ECONNREFUSED. Is Redis');
    expect(storeError('k', unsent, refused)).toMatchObject({ cause: refused, retryable: false });
    const answered = error('ReplyError', 'OOM');
    expect(storeError('k', answered, down).message).not.toContain('ECONNREFUSED');
    expect(storeError('k', down, down).message.match(/ECONNREFUSED/g)).toHaveLength(1);
  });

  it('stays the LockStoreError that it is', () => {
    const original = new LockStoreError('text');
    expect(storeError('k', original)).toBe(original);
  });
});

describe('a redirect of a cluster', () => {
  it.each([
    ['MOVED 3999 10.0.0.2:7001', { host: '10.0.0.2', port: 7_001 }, false],
    ['ASK 3999 10.0.0.2:7001', { host: '10.0.0.2', port: 7_001 }, true],
    ['MOVED 3999 node.example:7001', { host: 'node.example', port: 7_001 }, false],
    ['MOVED 3999 ::1:7001', { host: '::1', port: 7_001 }, false],
  ])('%s names a node', (message, address, isAsk) => {
    expect(readRedirect(new Error(message))).toEqual({ address, isAsk });
  });

  it.each([new Error('CLUSTERDOWN The cluster is down'), new Error('MOVED'), undefined])('is not %s', (cause) => {
    expect(readRedirect(cause)).toBeNull();
  });
});
