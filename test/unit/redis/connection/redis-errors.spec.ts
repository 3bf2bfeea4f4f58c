import { inspect } from 'node:util';
import { LockStoreError } from '../../../../lib/core/lock.errors.js';
import { LISTING } from '../../../../lib/core/store/subject.js';
import { isRetryable, readRedirect, storeError } from '../../../../lib/redis/connection/redis-errors.js';
import { lostError, unsentError } from '../../../../lib/redis/client/redis-client.js';

const error = (name: string, message: string): Error => Object.assign(new Error(message), { name });

describe('a failure of Redis', () => {
  it.each([
    ['ReplyError', 'NOSCRIPT No matching script. Please use EVAL.'],
    ['ReplyError', 'TRYAGAIN Multiple keys request during rehashing of slot'],
    ['ReplyError', 'MOVED 3999 127.0.0.1:6381'],
    ['LostError', 'the connection was lost'],
    ['Error', 'no answer within 250 ms'],
  ])('is retryable: %s %s', (name, message) => {
    expect(isRetryable(error(name, message))).toBe(true);
  });

  it('becomes a LockStoreError that names the lock and what to do, with the cause', () => {
    const down = error('Error', 'connect ECONNREFUSED');
    expect(storeError('k', down)).toMatchObject({ code: 'LOCK_STORE', key: 'k', cause: down, retryable: true });
    const ofList = storeError(LISTING, down);
    expect([ofList.key, ofList.message]).toEqual([
      undefined,
      expect.stringMatching(/^Redis could not list the locks: .*ECONNREFUSED/),
    ]);
    expect(storeError('k', down).message).toBe(
      'Redis could not serve the lock "k": connect ECONNREFUSED. Check that Redis runs at this address, and that no firewall blocks it.',
    );
    const refused = storeError('k', error('ReplyError', 'WRONGPASS invalid'));
    expect(refused).toMatchObject({ retryable: false });
    expect(refused.message).toContain('Check user and password');
  });

  it('has no credentials in its cause', () => {
    for (const name of ['auth', 'hello', 'AUTH']) {
      const command = { name, args: ['locks', 'a-password'] };
      const told = Object.assign(error('ReplyError', 'WRONGPASS invalid'), { command });
      const { cause } = storeError('k', told);
      expect(inspect(cause, { depth: 9 })).not.toContain('a-password');
      expect(cause).toMatchObject({ name: told.name, message: told.message, stack: told.stack });
    }
    const command = { name: 'evalsha', args: ['sha'] };
    const kept = Object.assign(error('ReplyError', 'OOM'), { command });
    expect(storeError('k', kept).cause).toBe(kept);
  });

  it('names why the connection failed when the error of the command does not', () => {
    const unsent = unsentError();
    const refused = error('ReplyError', 'WRONGPASS invalid');
    const down = error('Error', 'connect ECONNREFUSED');
    const late = error('Error', 'no connection within 100 ms');
    expect(storeError('k', late, { connectionError: down })).toMatchObject({ cause: late, retryable: true });
    expect(storeError('k', late, { connectionError: down }).message).toContain(
      'within 100 ms: connect ECONNREFUSED. Check that Redis runs',
    );
    expect(storeError('k', unsent, { connectionError: refused })).toMatchObject({ cause: refused, retryable: false });
    const answered = error('ReplyError', 'OOM');
    expect(storeError('k', answered, { connectionError: down }).message).not.toContain('ECONNREFUSED');
    expect(storeError('k', down, { connectionError: down }).message.match(/ECONNREFUSED/g)).toHaveLength(1);
  });

  it.each([unsentError(), lostError()])('names the reason of a connection instead of its loss: %s', (lost) => {
    const down = error('Error', 'connect ECONNREFUSED 127.0.0.1:1');
    const known = storeError('k', lost, { connectionError: down });
    expect(known).toMatchObject({ cause: down, retryable: true });
    expect(known.message).toBe(
      'Redis could not serve the lock "k": connect ECONNREFUSED 127.0.0.1:1. Check that Redis runs at this address, and that no firewall blocks it.',
    );
    expect(storeError('k', lost)).toMatchObject({ retryable: true, message: expect.stringContaining('was lost') });
  });

  it.each([
    [true, 'LOADING Redis is loading the dataset in memory', 'still loading its data'],
    [true, "READONLY You can't write against a read only replica.", 'connect to its master'],
    [true, "MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.", 'lost its master'],
    [true, 'CLUSTERDOWN The cluster is down', 'CLUSTER INFO'],
    [
      true,
      'BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.',
      'SCRIPT KILL ends it',
    ],
    [true, "OOM command not allowed when used memory > 'maxmemory'.", 'raise its `maxmemory`'],
    [true, 'NOREPLICAS Not enough good replicas to write.', 'min-replicas-to-write'],
    [
      true,
      'MISCONF Redis is configured to save RDB snapshots, but is currently not able to persist on disk.',
      'its disk',
    ],
    [true, 'ERR max number of clients reached', '`maxclients`'],
    [false, 'NOAUTH Authentication required.', 'asks for a password'],
    [false, 'WRONGPASS invalid username-password pair or user is disabled.', 'Check user and password'],
    [
      false,
      "NOPERM User app has no permissions to run the 'evalsha' command",
      'see "A user for locks only" on the page "Security"',
    ],
    [false, 'WRONGTYPE Operation against a key holding the wrong kind of value', '`keyPrefix`'],
    [false, "ERR unknown command 'EVALSHA'", 'Check the permissions'],
    [false, 'ERR Error compiling script (new function): user_script:1: unexpected symbol', 'Check the permissions'],
  ])('is retryable (%s), names what to do, without the general advice: %s', (retryable, message, advice) => {
    const told = storeError('k', error('ReplyError', message));
    expect(told).toMatchObject({ retryable, message: expect.stringContaining(message.replace(/\.$/, '')) });
    expect(told.message).toContain(advice);
    expect(told.message).not.toContain('firewall');
  });

  it.each([
    ['Unknown RESP type 21 "\x15". Please report this.', 'expects TLS'],
    ['Protocol error, got "H" as reply type byte. Please report this.', 'is not Redis'],
    ['C0:error:0A00010B:SSL routines:ssl3_get_record:wrong version number', '`redis://`'],
    ['self-signed certificate in certificate chain', 'See "TLS" on the page "Security"'],
    ['All sentinels are unreachable. Last error: no answer in time', 'a master of that `name`'],
    ['connect ECONNREFUSED 127.0.0.1:1', 'Check that Redis runs at this address, and that no firewall blocks it.'],
  ])('names what to do when the connection to Redis fails: %s', (message, advice) => {
    const text = storeError('k', error('Error', message)).message;
    expect(text).toContain(advice);
    expect(text).not.toMatch(/report this/);
  });

  it('omits the line of a script, and reports an error of many addresses', () => {
    const textOf = (message: string) => storeError('k', error('ReplyError', message)).message;
    expect(textOf('OOM no memory script: 8dbcb7, on @user_script:39.')).toContain('"k": OOM no memory. ');
    const readOnly = 'ERR Error running script (call to f_8dbc): @user_script:9: READONLY No.';
    expect(textOf(readOnly)).toContain('"k": READONLY No. ');
    expect(isRetryable(error('ReplyError', readOnly))).toBe(true);
    const many = new AggregateError([
      new Error('connect ECONNREFUSED ::1:1'),
      new Error('connect ECONNREFUSED 127.0.0.1:1'),
    ]);
    expect(storeError('k', many).message).toContain(
      '"k": connect ECONNREFUSED ::1:1, connect ECONNREFUSED 127.0.0.1:1.',
    );
  });

  it.each([
    ['MOVED 3999 127.0.0.1:6381', false],
    ["CROSSSLOT Keys in request don't hash to the same slot", false],
    ['CLUSTERDOWN Hash slot not served', true],
  ])('advises a client of one server to use a cluster: %s', (message, retryable) => {
    const told = storeError('k', error('ReplyError', message), { isSingle: true });
    expect(told).toMatchObject({ retryable });
    expect(told.message).toBe(
      `Redis could not serve the lock "k": ${message}. This Redis is a node of a cluster: use \`connection: { cluster: [...] }\`.`,
    );
    expect(storeError('k', error('ReplyError', message)).message).not.toContain('connection:');
  });

  it('leaves a LockStoreError unchanged', () => {
    const original = new LockStoreError('text');
    expect(storeError('k', original)).toBe(original);
  });
});

const ASKED = { host: '10.0.0.1', port: 7_000 };

describe('a redirect of a cluster', () => {
  it.each([
    ['MOVED 3999 10.0.0.2:7001', { host: '10.0.0.2', port: 7_001 }, false],
    ['ASK 3999 10.0.0.2:7001', { host: '10.0.0.2', port: 7_001 }, true],
    ['MOVED 3999 node.example:7001', { host: 'node.example', port: 7_001 }, false],
    ['MOVED 3999 ::1:7001', { host: '::1', port: 7_001 }, false],
    ['MOVED 3999 :7001', { host: '10.0.0.1', port: 7_001 }, false],
    ['ASK 3999 ?:7001', { host: '10.0.0.1', port: 7_001 }, true],
  ])('%s names a node', (message, address, isAsk) => {
    expect(readRedirect(new Error(message), ASKED)).toEqual({ address, isAsk });
  });

  it.each([new Error('CLUSTERDOWN The cluster is down'), new Error('MOVED'), undefined])('is not %s', (cause) => {
    expect(readRedirect(cause, ASKED)).toBeNull();
  });
});
