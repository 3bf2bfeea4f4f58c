/** How a command ends, for scripts. */
export const EXIT = {
  ok: 0,
  /** A negative answer: nothing was found or released, or the doctor found a problem. */
  no: 1,
  /** The command line or the environment is wrong, or the command was not allowed to do it. */
  usage: 2,
  /** Redis could not be reached, did not answer in time, or refused. */
  redis: 3,
  /** A mistake of the tool itself. */
  bug: 70,
} as const;

export type ExitCode = (typeof EXIT)[keyof typeof EXIT];

/** Words or variables that the tool cannot use. Its text never contains a value that may be a password. */
export class UsageError extends Error {}

/** What each command takes besides the options of every command. */
export const COMMANDS = {
  ls: { args: '[PREFIX]', options: ['limit'], about: 'the locks that are held or waited for' },
  inspect: { args: 'KEY', options: [], about: 'one lock: its holders, and its queue in order' },
  watch: { args: '[PREFIX]', options: ['limit', 'interval'], about: 'the same as ls, again and again, until Ctrl-C' },
  history: { args: '[KEY]', options: ['limit'], about: 'what has happened to the locks, or to one, newest first' },
  jobs: { args: '[PREFIX]', options: ['limit'], about: 'the jobs with `oncePer`: the last run of each' },
  release: { args: 'KEY', options: ['by', 'yes'], about: 'take a lock away from its holders; asks first' },
  doctor: { args: '', options: [], about: 'check the servers, the rights and the settings' },
} as const satisfies Readonly<
  Record<string, { readonly args: string; readonly options: readonly string[]; readonly about: string }>
>;

export type CommandName = keyof typeof COMMANDS;

const commandLines = Object.entries(COMMANDS).map(
  ([name, { args, about }]) => `  ${`${name} ${args}`.padEnd(18)}${about[0]!.toUpperCase()}${about.slice(1)}.`,
);

export const HELP = `Usage: nestjs-redis-lock COMMAND [options]

Looks at the locks of nestjs-redis-lock in Redis.

Commands
${commandLines.join('\n')}

Where the locks are: one of these (default: --url redis://127.0.0.1:6379)
  --url URL              redis://, rediss:// or unix://, without a password.
  --cluster NODES        Some nodes of a Redis Cluster: host:port,host:port
  --sentinel SENTINELS   Sentinels: host:port,host:port; with --sentinel-name.
  --sentinel-name NAME   The name by which the sentinels know the master.
  --quorum URLS          The independent masters of a quorum: url,url,url

How to log in
  --username NAME        The user in Redis.
  --password-file FILE   A file with the password. There is no option for the password itself: other users of the
                         machine could read it. Set REDIS_LOCK_PASSWORD, or give a file.
  --tls                  Use TLS, as rediss:// does.
  --tls-ca FILE          The certificate of the authority (PEM); this and the next three imply --tls.
  --tls-cert FILE        The certificate of this client (PEM).
  --tls-key FILE         Its private key (PEM).
  --tls-servername NAME  The name in the certificate of the server, if it is not the host.
  --sentinel-tls         Use TLS to the sentinels, too.

Options
  --prefix PREFIX        The \`keyPrefix\` of the app (default: lock:).
  --hash-tag TAG         What the \`hashTag\` of the app returns for the key, if it has that option.
  --timeout MS           How long Redis may take to answer (default: 5000).
  --json                 Print JSON. \`watch\` prints one object for each change.
  --read-only            Change nothing in Redis: \`release\` is refused, and \`doctor\` skips what would write.
  --limit N              At most so many (ls, watch, jobs; default: 1000; history; default: 100).
  --interval MS          How often to look (watch; default: 1000).
  --by NAME              Who does it, for the history (release; default: the user and the host of this machine).
  --yes                  Do not ask (release).
  -h, --help             Print this.
  --version              Print the version.

From the environment
  Each option from --url to --timeout, --json and --read-only has a variable: REDIS_LOCK_URL, REDIS_LOCK_TLS_CA, ...
  Options on the command line come first. A URL in the environment may contain a password. Further variables:
  REDIS_LOCK_PASSWORD, REDIS_LOCK_SENTINEL_USERNAME, REDIS_LOCK_SENTINEL_PASSWORD.
  With NO_COLOR, nothing is coloured.

Exit codes
  0  Done: found, released, or no problem.
  1  A negative answer: nothing found, nothing released, or the doctor found a problem.
  2  Wrong usage, or not allowed by --read-only.
  3  Redis could not be reached, did not answer in time, or refused.
  70 A mistake of the tool itself: please report it, with the text.
`;
