import { sectionText } from '../../core/documentation.js';
import { printable } from '../../core/printable.js';

/** Advice by a word anywhere in an error text: before Redis 7, that of a script begins with `ERR Error running script`. */
type Advice = readonly { readonly pattern: RegExp; readonly text: string }[];

function adviceBy(texts: Readonly<Record<string, string>>): Advice {
  return Object.entries(texts).map(([words, text]) => ({ pattern: new RegExp(`\\b(${words})\\b`), text }));
}

/** Advice for a passing state of a server: a retry within the deadline may help. */
const PASSING = adviceBy({
  LOADING: 'Redis is still loading its data; wait until it has finished.',
  READONLY: 'This Redis is a replica, which refuses writes: connect to its master, or through Sentinel or a cluster.',
  MASTERDOWN: 'This Redis is a replica that has lost its master: connect to a master.',
  CLUSTERDOWN: 'The cluster does not serve this key now: see CLUSTER INFO.',
  TRYAGAIN: 'The key is moving to another node.',
  MOVED: 'The key has moved to another node.',
  ASK: 'The key is moving to another node.',
  BUSY: 'The script of another client blocks Redis: SCRIPT KILL ends it.',
  OOM: 'Redis has no memory left: raise its `maxmemory`, or keep less in it.',
  NOREPLICAS: 'Fewer replicas are up than `min-replicas-to-write` asks for.',
  MISCONF: 'Redis cannot save its data, and refuses writes: see its log, and its disk.',
  NOSCRIPT: 'Redis has forgotten the scripts, and gets them again.',
  UNBLOCKED: 'Redis has just become a replica.',
  'max number of clients': 'Raise `maxclients` of Redis, or open fewer connections.',
});

/** Advice for a lock in data of version 1. */
export const OLD_DATA_ADVICE =
  'An earlier version has written this lock: wait for `keepMs` after the last old instance has stopped, or delete the keys ' +
  'under the prefix while nothing runs.';

/**
 * A server without Lua scripts: one that lacks the commands, Valkey without its Lua module (9.1), Garnet without `--lua`.
 */
const NO_SCRIPTS =
  'unknown command .(?:evalsha|eval|EVALSHA|EVAL)|Could not find scripting engine|Lua scripting (?:support )?disabled';

const LACKS_RIGHT = "NOPERM|can't run this command|ACL failure in script";

/** Advice for a permanent refusal. */
const STAYING = adviceBy({
  DENIED:
    'This Redis is in protected mode, and accepts connections from its own machine only: set a password there, and give it in `connection`.',
  NOAUTH: 'Redis asks for a password: give one in `connection`.',
  WRONGPASS: 'Check user and password of `connection`.',
  [LACKS_RIGHT]: `The user lacks a permission: see ${sectionText('rights')}.`,
  'cluster support disabled': 'This Redis is not a node of a cluster: leave out `cluster`.',
  'DB index is out of range': 'This Redis has no such database: give another `db` in `connection`.',
  'not allowed in cluster mode': 'A cluster has only database 0: leave out `db` in `connection`.',
  OLDDATA: OLD_DATA_ADVICE,
  NEWERDATA: 'A newer version of nestjs-redis-lock has written this lock: also update this instance.',
  [NO_SCRIPTS]:
    'The locks use Lua scripts. Check the permissions of the user, and whether the server was built and started with Lua.',
  WRONGTYPE: 'Something else is stored under that name: give the locks their own `keyPrefix`.',
});

/** The text for a connection that ended without an error. */
export const NEVER_READY = 'the connection ended before it was ready';

/** Advice when a connection fails, or leads to something other than Redis. */
const OF_THE_CONNECTION = adviceBy({
  'RESP type|Protocol error': 'The server is not Redis, or it expects TLS (`rediss://`).',
  'certificate|altnames': `See ${sectionText('tls')}.`,
  'SSL|TLS|EPROTO': 'Check whether this port expects TLS (`rediss://`), or none (`redis://`).',
  [`${NEVER_READY}|ETIMEDOUT|ECONNRESET|EPIPE`]:
    'Check whether Redis is reachable, has loaded its data, accepts clients of other machines (protected mode) and more of them ' +
    '(`maxclients`), and whether it expects TLS (`rediss://`), or none (`redis://`).',
  'sentinels are unreachable': 'Check the addresses of the sentinels, and whether they know a master of that `name`.',
});

const NODE_OF_CLUSTER = /\b(MOVED|CROSSSLOT|CLUSTERDOWN)\b/;

/** Whether an error text reports a passing state of the server. */
export const isPassing = (message: string): boolean => find(PASSING, message) !== undefined;

/** Whether the server does not run Lua scripts at all. */
export const runsNoScripts = ({ message }: Error): boolean => new RegExp(`\\b(${NO_SCRIPTS})\\b`).test(message);

/** Whether the server refuses a script permanently: it runs none, the user lacks a permission, or some keys are on another server. */
export const refusesScript = (error: Error): boolean =>
  runsNoScripts(error) || needsCluster(error) || new RegExp(`\\b(${LACKS_RIGHT})\\b`).test(error.message);

/** Whether the server refuses a client because it is not one of the whole cluster. */
export const needsCluster = ({ message }: Error): boolean => /\b(MOVED|CROSSSLOT)\b/.test(message);

/** Advice for an error of Redis or of the connection to it. `isSingle`: the client is not one of a cluster. */
export function adviceOn({ name, message }: Error, isSingle: boolean): string {
  if (isSingle && NODE_OF_CLUSTER.test(message))
    return 'This Redis is a node of a cluster: use `connection: { cluster: [...] }`.';
  const known = find(PASSING, message) ?? find(STAYING, message) ?? find(OF_THE_CONNECTION, message);
  if (known !== undefined) return known;
  return name === 'ReplyError'
    ? 'Check the permissions of the user, and the key prefix.'
    : 'Check that Redis runs at this address, and that no firewall blocks it.';
}

const find = (advice: Advice, message: string): string | undefined =>
  advice.find(({ pattern }) => pattern.test(message))?.text;

/** The server may not be Redis, and its text may have any length. */
const MAX_SHOWN = 500;

/** The text of an error, for use inside a sentence: without its place in a script, and without advice about ioredis. */
export function readableText(error: Error): string {
  const text = error.message || textOfMany(error);
  return printable(text.slice(0, MAX_SHOWN))
    .replace(/^ERR (Error running script \(call to \w+\): )?(@?\w+: ?\d+: )+/, '')
    .replace(/ script: \w+, on @\w+:\d+\.?$/, '')
    .replace(/ If you want to connect from external computers .*$/s, '')
    .replace(/ Please report this\.$/, '')
    .replace(/\.$/, '');
}

/** When all addresses of a host fail, Node reports an error without a text. */
function textOfMany(error: Error): string {
  const { errors = [], code } = error as { readonly errors?: readonly Error[]; readonly code?: string };
  return [...new Set(errors.map(({ message }) => message))].join(', ') || (code ?? error.name);
}
