import { type ServerFacts } from './server-facts.js';

/** A fact about a server that its operator should know. */
export interface Finding {
  /** Each kind is reported once. */
  readonly kind: string;
  /** The finding and its consequences: whole sentences. */
  readonly text: string;
  /** Advice: whole sentences. */
  readonly advice: string;
}

/** The complete text of a finding, for a log or an error. */
export const textOf = ({ text, advice }: Finding): string => `${text} ${advice}`;

/** Why no lock may be granted by a server. */
export interface Unsafe extends Finding {
  /** Whether the server may become safe without a restart. */
  readonly isPassing: boolean;
}

/** How the store uses a server, and with what kind of client. */
export interface ServerUse {
  /** The client connects to the whole cluster. */
  readonly isCluster: boolean;
  /** Sentinels, a cluster or a quorum find the master, and report a replica. */
  readonly findsMaster: boolean;
  readonly minReplicas: number;
  /** The module has the option `history`. */
  readonly writesHistory?: boolean;
}

/** The first Redis that runs scripts which read the time before they write. */
const OLDEST = '5.0';

/** The first Redis that trims entries of a stream by their age (`XTRIM MINID`). */
const OLDEST_WITH_HISTORY = '6.2';

const TO_THE_MASTER = 'Connect to its master, or through Sentinel or a cluster.';

/** One address leads to several servers, each of which sees one of the keys of a script. */
export const SPREAD_KEYS: Unsafe = {
  kind: 'shards',
  text:
    'This address is a proxy that spreads keys over several servers, and sends a script of several keys to the server of the ' +
    'first one: locks of several keys, and locks that are acquired at the same time, could get a second holder.',
  advice: 'Connect to one Redis, or to a cluster by `connection: { cluster: [...] }`.',
  isPassing: false,
};

/** Why the locks of this server are unsafe; null: no reason is known. */
export function unsafetyOf(facts: ServerFacts, use: ServerUse): Unsafe | null {
  if (facts.garnet !== undefined) {
    const text =
      `This server is Garnet ${facts.garnet}. Unless LuaTransactionMode is on, it runs two scripts for one key at the same ` +
      'time, so that two callers might get one lock, and it does not report whether it is on.';
    return { kind: 'garnet', text, advice: 'Use Redis or Valkey.', isPassing: false };
  }
  if (facts.isSentinel) {
    const advice = 'Use `connection: { sentinels: [...], name }`.';
    return { kind: 'sentinel', text: 'This server is a sentinel.', advice, isPassing: false };
  }
  if (facts.isWritableReplica && !use.isCluster) {
    const text =
      `This server is a replica of ${facts.master} that takes writes, and forgets them when it copies its ` +
      'master again.';
    return { kind: 'replica', text, advice: TO_THE_MASTER, isPassing: true };
  }
  return null;
}

/** Problems that do not make locks unsafe. */
export function warningsOf(facts: ServerFacts, use: ServerUse): readonly Finding[] {
  const found: (Finding | null)[] = [
    ofRole(facts, use),
    ofCluster(facts, use),
    ofEviction(facts),
    ofReplicas(facts, use),
    ofVersion(facts),
    ofHistory(facts, use),
  ];
  return found.filter((one) => one !== null);
}

function ofRole({ master, isWritableReplica }: ServerFacts, { findsMaster }: ServerUse): Finding | null {
  if (master === undefined || isWritableReplica || findsMaster) return null;
  const text = `This server is a replica of ${master}, and refuses locks until it is promoted.`;
  return { kind: 'replica', text, advice: TO_THE_MASTER };
}

function ofCluster({ isClusterNode }: ServerFacts, { isCluster }: ServerUse): Finding | null {
  if (!isClusterNode || isCluster) return null;
  const text = 'This server is a node of a cluster, and refuses the locks of the other nodes.';
  return { kind: 'cluster', text, advice: 'Use `connection: { cluster: [...] }`.' };
}

/** Every lock has a time to live, so the `volatile-` policies also evict locks. */
function ofEviction({ eviction }: ServerFacts): Finding | null {
  if (eviction === undefined || eviction === 'noeviction') return null;
  const text =
    `The \`maxmemory-policy\` of this server is ${eviction}: when its memory is full, it may delete a lock that is held, and ` +
    'grant it to another caller.';
  return { kind: 'eviction', text, advice: 'Set it to noeviction, or give the locks their own server.' };
}

function ofReplicas({ replicas, master }: ServerFacts, { minReplicas }: ServerUse): Finding | null {
  if (replicas === undefined || replicas >= minReplicas || master !== undefined) return null;
  const text =
    `This server has ${replicas} replicas now, and \`minReplicas\` is ${minReplicas}: no lock is granted until it has ` +
    'enough.';
  return { kind: 'replicas', text, advice: 'Check the replication, or lower `minReplicas`.' };
}

function ofVersion({ version }: ServerFacts): Finding | null {
  if (!isOlder(version, OLDEST)) return null;
  const text =
    `This server reports that it is Redis ${version}. The scripts of the locks need Redis ${OLDEST} or later: an older ` +
    'one refuses them.';
  return { kind: 'version', text, advice: 'Update it.' };
}

function ofHistory({ version }: ServerFacts, { writesHistory }: ServerUse): Finding | null {
  if (!writesHistory || !isOlder(version, OLDEST_WITH_HISTORY)) return null;
  const text =
    `This server reports that it is Redis ${version}. The history of the locks needs Redis ${OLDEST_WITH_HISTORY} or later: an ` +
    'older one refuses it, and nothing is written. No lock is affected.';
  return { kind: 'history', text, advice: 'Update it, or leave out `history`.' };
}

/** Whether a version is known, and lower than another one. */
function isOlder(version: string | undefined, than: string): boolean {
  const partsOf = (text: string): number[] => (/^(\d+)\.(\d+)/.exec(text) ?? []).slice(1).map(Number);
  const [[major, minor], [leastMajor, leastMinor]] = [partsOf(version ?? ''), partsOf(than)] as [number[], number[]];
  if (major === undefined || minor === undefined) return false;
  return major < leastMajor! || (major === leastMajor && minor < leastMinor!);
}
