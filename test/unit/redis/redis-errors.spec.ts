import { LockStoreError } from '../../../lib/core/lock.errors.js';
import { isRetryable, storeError } from '../../../lib/redis/redis-errors.js';

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

  it('stays the LockStoreError that it is', () => {
    const original = new LockStoreError('text');
    expect(storeError('k', original)).toBe(original);
  });
});
