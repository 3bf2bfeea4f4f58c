import { printable } from '../../core/printable.js';
import { refusesScript } from './error-advice.js';

/** What INFO reports about a server. A service may omit any of it. */
export interface ServerFacts {
  /** Changes each time the server starts. */
  readonly runId: string | undefined;
  /** The version of Redis, or the one that the server claims compatibility with. */
  readonly version: string | undefined;
  /** The version of Garnet. */
  readonly garnet: string | undefined;
  readonly isSentinel: boolean;
  readonly isClusterNode: boolean;
  /** The address of its master, as `host:port`; undefined for a master. */
  readonly master: string | undefined;
  /** Whether it is a replica that accepts writes. */
  readonly isWritableReplica: boolean;
  /** The number of replicas in sync. */
  readonly replicas: number | undefined;
  /** The eviction policy when its memory is full; undefined if it has no limit, or does not report one. */
  readonly eviction: string | undefined;
}

/** With this number of keys, at least one is on another server than the first, unless there is only one server (2^-15 for two). */
const PROBES = 16;

/** Writes nothing. A user that may not call INFO gets no facts. */
const WHERE = `local info = redis.pcall('INFO', 'server')
return type(info) == 'string' and string.match(info, 'run_id:(%w+)') or ''`;

/**
 * Whether a script with keys of several servers runs on one of them without an error, as with a proxy that sends each
 * command to the server of its first key; null while an answer is missing. `prefix`: of keys that the user may name; nothing is
 * stored under them.
 */
export async function spreadsKeys(
  evaluate: (text: string, keys: readonly string[]) => Promise<unknown>,
  prefix: string,
): Promise<boolean | null> {
  const keys = Array.from({ length: PROBES }, (_, i) => `${prefix}probe${i}`);
  const asked = [keys, ...keys.slice(1).map((key) => [key])].map((some) => evaluate(WHERE, some));
  const answers = await Promise.allSettled(asked);
  const [ofAll, ...others] = answers.map((answer) => (answer.status === 'fulfilled' ? answer.value : ''));
  const isElsewhere = (id: unknown): boolean => typeof id === 'string' && id !== '' && id !== ofAll;
  if (typeof ofAll === 'string' && ofAll !== '' && others.some(isElsewhere)) return true;
  // Any other error may come from one server that is unavailable.
  const isMissing = answers.some((answer) => answer.status === 'rejected' && !refusesScript(answer.reason as Error));
  return isMissing ? null : false;
}

/** The server may not be Redis, and its values may have any length. */
const MAX_VALUE = 100;

/** Reads the answer to INFO, of all sections or of some. */
export function readServerFacts(info: string): ServerFacts {
  const field = (name: string): string | undefined => {
    const value = new RegExp(`^${name}:(.*?)\r?$`, 'm').exec(info)?.[1];
    return value === undefined ? undefined : printable(value.slice(0, MAX_VALUE));
  };
  const isReplica = field('role') === 'slave';
  return {
    runId: /^run_id:(\w+)/m.exec(info)?.[1],
    version: field('redis_version'),
    garnet: field('garnet_version'),
    isSentinel: field('redis_mode') === 'sentinel',
    isClusterNode: field('redis_mode') === 'cluster' || field('cluster_enabled') === '1',
    master: isReplica ? `${field('master_host')}:${field('master_port')}` : undefined,
    isWritableReplica: isReplica && field('slave_read_only') === '0',
    replicas: onlineReplicas(info, field('connected_slaves')),
    // Without a limit, nothing is ever evicted.
    eviction: Number(field('maxmemory') ?? 0) > 0 ? field('maxmemory_policy') : undefined,
  };
}

/** A replica that still receives its first copy does not confirm writes. */
function onlineReplicas(info: string, connected: string | undefined): number | undefined {
  if (connected === undefined || !/^\d+$/.test(connected)) return undefined;
  const states = [...info.matchAll(/^slave\d+:.*\bstate=(\w+)/gm)].map(([, state]) => state);
  return states.length === 0 ? Number(connected) : states.filter((state) => state === 'online').length;
}
