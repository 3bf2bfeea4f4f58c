import { type ServerFacts } from './server-facts.js';

/** Something about a server that its operator should know. */
export interface Finding {
  /** Each kind is reported once. */
  readonly kind: string;
  /** What was found, what comes of it, and what to do: whole sentences. */
  readonly text: string;
}

/** Why no lock may be granted by a server. */
export interface Unsafe extends Finding {
  /** Whether the server may become safe without a restart. */
  readonly isPassing: boolean;
}

/** What a server is asked for, and by what kind of client. */
export interface ServerUse {
  /** The client knows the whole cluster. */
  readonly isCluster: boolean;
  /** Somebody else finds the master, and reports a replica: sentinels, a cluster or a quorum. */
  readonly findsMaster: boolean;
  readonly minReplicas: number;
}

/** The first Redis that runs scripts which read the time before they write. */
const OLDEST_MAJOR = 5;

/** Why the locks of this server could not be trusted; null: nothing is known against it. */
export function unsafetyOf(facts: ServerFacts, use: ServerUse): Unsafe | null {
  if (facts.garnet !== undefined) {
    const text =
      `This server is Garnet ${facts.garnet}. Unless LuaTransactionMode is on, it runs two scripts for one key at the same ` +
      'time, so that two callers might get one lock, and it does not tell whether it is on. Use Redis or Valkey.';
    return { kind: 'garnet', text, isPassing: false };
  }
  if (facts.isSentinel) {
    const text = 'This server is a sentinel. Use `connection: { sentinels: [...], name }`.';
    return { kind: 'sentinel', text, isPassing: false };
  }
  if (facts.isWritableReplica && !use.findsMaster) {
    const text =
      `This server is a replica of ${facts.master} that takes writes, and forgets them when it copies its master again. ` +
      'Connect to its master, or through Sentinel or a cluster.';
    return { kind: 'replica', text, isPassing: true };
  }
  return null;
}

/** What will hurt, although locks are safe. */
export function warningsOf(facts: ServerFacts, use: ServerUse): readonly Finding[] {
  const found: (Finding | null)[] = [
    ofRole(facts, use),
    ofCluster(facts, use),
    ofEviction(facts),
    ofReplicas(facts, use),
    ofVersion(facts),
  ];
  return found.filter((one) => one !== null);
}

function ofRole({ master, isWritableReplica }: ServerFacts, { findsMaster }: ServerUse): Finding | null {
  if (master === undefined || isWritableReplica || findsMaster) return null;
  const text =
    `This server is a replica of ${master}, and refuses locks until it is promoted. Connect to its master, or through ` +
    'Sentinel or a cluster.';
  return { kind: 'replica', text };
}

function ofCluster({ isClusterNode }: ServerFacts, { isCluster }: ServerUse): Finding | null {
  if (!isClusterNode || isCluster) return null;
  const text =
    'This server is a node of a cluster, and refuses the locks of the other nodes. Use `connection: { cluster: [...] }`.';
  return { kind: 'cluster', text };
}

/** Every lock has a time to live, so the `volatile-` policies evict locks, too. */
function ofEviction({ eviction }: ServerFacts): Finding | null {
  if (eviction === undefined || eviction === 'noeviction') return null;
  const text =
    `The \`maxmemory-policy\` of this server is ${eviction}: when its memory is full, it may delete a lock that is held, and ` +
    'grant it to somebody else. Set it to noeviction, or give the locks a server of their own.';
  return { kind: 'eviction', text };
}

function ofReplicas({ replicas, master }: ServerFacts, { minReplicas }: ServerUse): Finding | null {
  if (replicas === undefined || replicas >= minReplicas || master !== undefined) return null;
  const text =
    `This server has ${replicas} replicas now, and \`minReplicas\` is ${minReplicas}: no lock is granted until it has enough. ` +
    'Check the replication, or lower `minReplicas`.';
  return { kind: 'replicas', text };
}

function ofVersion({ version }: ServerFacts): Finding | null {
  const major = Number(/^(\d+)\./.exec(version ?? '')?.[1] ?? OLDEST_MAJOR);
  if (major >= OLDEST_MAJOR) return null;
  const text =
    `This server says that it is Redis ${version}. The scripts of the locks need Redis ${OLDEST_MAJOR} or later: an older ` +
    'one refuses them. Update it.';
  return { kind: 'version', text };
}
