import { type Environment, readArguments, settingsOf } from '../../../lib/cli/settings.js';
import { HELP, UsageError } from '../../../lib/cli/settings.js';

function settings(args: readonly string[], env: Environment = {}) {
  const call = readArguments(args, env);
  if (typeof call === 'string') throw new Error(`It is ${call}.`);
  return settingsOf(call, env);
}

const refusal = (args: readonly string[], env: Environment = {}): string => {
  try {
    settings(args, env);
  } catch (error) {
    if (error instanceof UsageError) return error.message;
    throw error;
  }
  return 'nothing';
};

describe('the command line', () => {
  it('has a command, and a key or a prefix', () => {
    expect(readArguments(['inspect', 'order:1', '--json'], {})).toMatchObject({
      command: 'inspect',
      word: 'order:1',
      given: { json: true },
    });
    expect(readArguments(['--url', 'redis://h', 'ls'], {})).toMatchObject({
      command: 'ls',
      word: undefined,
      given: { url: 'redis://h' },
    });
  });

  it.each([[['--help']], [['-h']], [['ls', '--help']]])('asks for help by %j', (args) => {
    expect(readArguments(args, {})).toBe('help');
  });

  it('may leave out the key of `history` and the prefix of `jobs`', () => {
    expect(readArguments(['history'], {})).toMatchObject({ command: 'history', word: undefined });
    expect(readArguments(['history', 'order:1'], {})).toMatchObject({ command: 'history', word: 'order:1' });
    expect(readArguments(['jobs', 'report:'], {})).toMatchObject({ command: 'jobs', word: 'report:' });
  });

  it('limits the history to less than the lists of locks', () => {
    expect(settings(['history'])).toMatchObject({ limit: 100 });
    expect(settings(['history', '--limit', '10000'])).toMatchObject({ limit: 10_000 });
    expect(settings(['jobs'])).toMatchObject({ limit: 1_000 });
  });

  it('takes a key that begins with a hyphen behind --', () => {
    expect(readArguments(['inspect', '--', '--key'], {})).toMatchObject({ command: 'inspect', word: '--key' });
  });

  it.each([
    [[], 'Expected a command: ls, inspect'],
    [['redis://:secret@h'], 'Unknown command: expected one of ls'],
    [['inspect'], '`inspect` needs the key of a lock.'],
    [['inspect', 'a', 'b'], '`inspect` takes one word after it: KEY.'],
    [['doctor', 'a'], '`doctor` takes no words after it.'],
    [['ls', '--yes'], '`ls` has no option --yes.'],
    [['history', '--limit', '10001'], 'Expected --limit to be a whole number from 1 to 10000.'],
    [['release', 'a', '--by', ''], 'Expected --by to be a well-formed string of 1 to 128 characters'],
    [['ls', '--nope=secret'], "Unknown option '--nope'. See --help."],
    [['ls', '--url'], "Option '--url <value>' argument missing. See --help."],
    [['ls', '--limit', '0'], 'Expected --limit to be a whole number from 1 to 1000000.'],
    [['watch', '--interval', '-1'], "Option '--interval' argument is ambiguous. See --help."],
    [['ls', '--prefix', 'a{b}'], 'Expected --prefix to be a string of 1 to 128 characters without braces, got "a{b}".'],
  ])('is refused when it is %j', (args, message) => {
    expect(refusal(args)).toContain(message);
    expect(refusal(args)).not.toContain('secret');
  });

  it('names every option of the environment in its help', () => {
    for (const option of 'url cluster sentinel quorum prefix tls-ca hash-tag timeout read-only'.split(' ')) {
      expect(HELP).toContain(`--${option} `);
    }
  });
});

describe('the environment', () => {
  it('has the same settings, and the command line comes first', () => {
    const env = {
      REDIS_LOCK_PREFIX: 'app:',
      REDIS_LOCK_TIMEOUT: '700',
      REDIS_LOCK_READ_ONLY: 'true',
      REDIS_LOCK_JSON: '0',
    };
    expect(settings(['ls'], env)).toMatchObject({ keyPrefix: 'app:', timeoutMs: 700, readOnly: true, json: false });
    expect(settings(['ls', '--prefix', 'b:', '--json'], env)).toMatchObject({ keyPrefix: 'b:', json: true });
  });

  it('gives way to another kind of place on the command line', () => {
    const env = { REDIS_LOCK_CLUSTER: 'a:1' };
    expect(settings(['ls'], env)).toMatchObject({ isCluster: true, connection: { cluster: [{ host: 'a', port: 1 }] } });
    expect(settings(['ls', '--url', 'redis://b:2'], env)).toMatchObject({
      isCluster: false,
      connection: { host: 'b', port: 2 },
    });
  });

  it.each([
    [{ REDIS_LOCK_READ_ONLY: 'maybe' }, 'Expected REDIS_LOCK_READ_ONLY to be 1 or 0.'],
    [
      { REDIS_LOCK_URL: 'redis://a', REDIS_LOCK_CLUSTER: 'b' },
      'Expected one of REDIS_LOCK_URL and REDIS_LOCK_CLUSTER.',
    ],
    [{ REDIS_LOCK_URL: 'http://:secret@a' }, 'Expected REDIS_LOCK_URL to begin with redis://'],
    [{ REDIS_LOCK_URL: 'redis://:sec%ret@a:x' }, 'Expected REDIS_LOCK_URL to be a URL that can be read.'],
    [{ REDIS_LOCK_TLS_CA: '/does/not/exist' }, 'The file of --tls-ca cannot be read: ENOENT.'],
  ])('is refused when it is %j', (env, message) => {
    expect(refusal(['ls'], env as Environment)).toContain(message);
    expect(refusal(['ls'], env as Environment)).not.toContain('sec');
  });
});

describe('the connection', () => {
  const access = { username: undefined, password: undefined, tls: undefined, connectTimeout: 3_000 };

  it.each([
    [[], {}, { host: '127.0.0.1', port: 6_379, db: 0 }],
    [['--url', 'redis://h:7/3'], {}, { host: 'h', port: 7, db: 3 }],
    [['--url', 'unix:///run/redis.sock'], {}, { path: '/run/redis.sock' }],
    [['--url', 'redis://h', '--tls'], {}, { tls: {} }],
    [['--url', 'redis://h', '--tls-servername', 'n'], {}, { tls: { servername: 'n' } }],
    [['--username', 'u'], { REDIS_LOCK_PASSWORD: 'p' }, { username: 'u', password: 'p' }],
    [[], { REDIS_LOCK_URL: 'redis://u:p%40@h' }, { username: 'u', password: 'p@' }],
    [
      ['--cluster', 'a:1, b'],
      {},
      {
        cluster: [
          { host: 'a', port: 1 },
          { host: 'b', port: 6_379 },
        ],
        redisOptions: access,
      },
    ],
    [
      ['--sentinel', 'a', '--sentinel-name', 'm', '--tls', '--sentinel-tls'],
      { REDIS_LOCK_SENTINEL_PASSWORD: 's' },
      {
        sentinels: [{ host: 'a', port: 26_379 }],
        name: 'm',
        tls: {},
        sentinelTLS: {},
        enableTLSForSentinelMode: true,
        sentinelPassword: 's',
      },
    ],
    [['--quorum', 'redis://a,b:2'], {}, [{ host: 'a' }, { host: 'b', port: 2 }]],
  ])('of %j and %j is %j', (args, env, connection) => {
    expect(settings(['ls', ...args], env as Environment).connection).toMatchObject(connection);
  });

  it.each([
    [['--url', 'redis://a', '--cluster', 'b'], 'Expected one of --url and --cluster.'],
    [['--sentinel', 'a'], '--sentinel needs --sentinel-name'],
    [['--sentinel-name', 'a'], 'need --sentinel.'],
    [['--cluster', 'a:0'], 'Expected --cluster to be a list of host:port'],
    [['--cluster', 'u:p@a:1'], 'Expected --cluster to be a list of host:port'],
    [['--url', 'redis://:secret@a'], 'A password on the command line'],
    [['--password', 'secret'], 'Set REDIS_LOCK_PASSWORD'],
    [['--quorum', 'a,redis://a:6379'], 'got the same one as [0] and [1]'],
  ])('is refused when it is %j', (args, message) => {
    expect(refusal(['ls', ...args])).toContain(message);
    expect(refusal(['ls', ...args])).not.toContain('secret');
  });
});
