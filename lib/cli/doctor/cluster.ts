import { type ClusterClient } from '../../redis/client/redis-client.js';
import { type Result, ok, problem, refusalOf, skipped, warn } from './finding.js';
import { fieldsOf } from './info.js';
import { type Server } from './servers.js';

const SLOTS = 16_384;
const FEWEST_MASTERS = 3;

/** The state of a cluster, as one of its nodes sees it. */
export async function checkCluster(server: Server, cluster: ClusterClient): Promise<Result[]> {
  const info = await orNull(server.ask((client) => client.call(['CLUSTER', 'INFO'])));
  if (typeof info !== 'string') return [skipped('The user may not ask for the state of the cluster (+cluster|info).')];
  const field = fieldsOf(info);
  const [masters, nodes] = [cluster.nodes('master').length, cluster.nodes('all').length];
  const results: Result[] = [];
  if (field('cluster_state') !== 'ok' || Number(field('cluster_slots_ok')) < SLOTS) {
    const text = `The state of the cluster is ${field('cluster_state')}: ${field('cluster_slots_ok')} of ${SLOTS} slots are served. The locks of the others are refused.`;
    results.push(problem(text, 'Check the nodes that are down: CLUSTER NODES.'));
  }
  if (masters < FEWEST_MASTERS) {
    const text = `The cluster has ${masters} masters. With fewer than ${FEWEST_MASTERS}, no majority can replace one that fails.`;
    results.push(warn(text, 'Add masters.'));
  }
  if (nodes - masters < masters) {
    const text = `The cluster has ${masters} masters and ${nodes - masters} replicas. While a master without a replica is down, its locks are refused.`;
    results.push(warn(text, 'Add replicas.'));
  }
  if (results.length === 0) {
    results.push(ok(`All slots are served by ${masters} masters, with ${nodes - masters} replicas.`));
  }
  return [...results, ...(await ofOptions(server))];
}

/** An option of the server; undefined: many users, and most services, do not allow CONFIG. */
export async function optionOf(server: Server, name: string): Promise<string | undefined> {
  const reply = await orNull(server.ask((client) => client.call(['CONFIG', 'GET', name])));
  return Array.isArray(reply) ? (reply[1] as string | undefined) : undefined;
}

async function ofOptions(server: Server): Promise<Result[]> {
  const timeout = await optionOf(server, 'cluster-node-timeout');
  const isWhole = await optionOf(server, 'cluster-require-full-coverage');
  if (timeout === undefined) return [skipped('The options of the cluster are not visible to this user (+config|get).')];
  const covers =
    isWhole === 'yes'
      ? 'While one slot is not served, all locks are refused (`cluster-require-full-coverage yes`).'
      : 'While one slot is not served, the other locks work (`cluster-require-full-coverage no`).';
  const text = `A master counts as down after ${timeout} ms (\`cluster-node-timeout\`): a lock with a shorter lease is lost in a failover. ${covers}`;
  return [ok(text)];
}

async function orNull<T>(answer: Promise<T>): Promise<T | null> {
  try {
    return await answer;
  } catch (error) {
    if (refusalOf(error) === null) throw error;
    return null;
  }
}
