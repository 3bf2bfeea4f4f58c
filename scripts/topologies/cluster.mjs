import { join } from 'node:path';
import { freePorts, makeFolder, startRedisServer } from '../redis.mjs';
import { HOST, address, ask, inSync, orCleanUp, startTogether, stopAll, until, withFreshPorts } from './servers.mjs';

const SLOTS = 16_384;

/**
 * @typedef {object} StartedCluster
 * @property {{ cluster: import('./servers.mjs').Address[] }} connection
 * @property {import('../redis.mjs').StartedRedis[]} masters The first masters, in the order of their slots.
 * @property {import('../redis.mjs').StartedRedis[]} replicas Replica `i` follows master `i % masters`.
 * @property {() => Promise<void>} stop Ends all servers, even if they are killed or stopped (SIGSTOP), and removes their files.
 */

/**
 * Starts a cluster of `masters` (3 by default) with `replicas` each; resolves when every node serves and reports all others.
 * @param {object} [options]
 * @param {number} [options.masters]
 * @param {number} [options.replicas] 1 by default.
 * @param {number} [options.nodeTimeoutMs] How long a node may be silent before it counts as down.
 * @param {(port: number) => number | Promise<number>} [options.announceBus] Receives the port on which the bus of a node listens,
 *   and returns the port by which the other nodes reach it (the same by default).
 * @returns {Promise<StartedCluster>}
 */
export async function startCluster({
  masters: count = 3,
  replicas = 1,
  nodeTimeoutMs = 1_500,
  announceBus = (port) => port,
} = {}) {
  const folder = makeFolder();
  const nodes = [];
  const stop = async () => {
    await stopAll(nodes);
    folder.remove();
  };
  return orCleanUp(stop, async () => {
    const starts = Array.from(
      { length: count * (1 + replicas) },
      () => () => startNode(folder.path, nodeTimeoutMs, announceBus),
    );
    nodes.push(...(await startTogether(starts)));
    await form(nodes, count);
    const [masters, others] = [nodes.slice(0, count), nodes.slice(count)];
    return { connection: { cluster: nodes.map(address) }, masters, replicas: others, stop };
  });
}

/** Its file is in the cluster's folder, so a restart with the same port and arguments is the same node. */
function startNode(folder, nodeTimeoutMs, announceBus) {
  return withFreshPorts(async () => {
    // By default the bus has the port plus 10,000, which may be taken or not a port at all.
    const [port, bus] = await freePorts(2);
    const file = join(folder, `nodes-${port}.conf`);
    const settings = {
      enabled: 'yes',
      port: String(bus),
      'config-file': file,
      'announce-ip': HOST,
      'announce-bus-port': String(await announceBus(bus)),
      'node-timeout': String(nodeTimeoutMs),
      'allow-replica-migration': 'no',
    };
    const args = Object.entries(settings).flatMap(([name, value]) => [`--cluster-${name}`, value]);
    return startRedisServer({ port, args: [...args, '--repl-diskless-sync-delay', '0'] });
  });
}

async function form(nodes, masters) {
  const ids = await Promise.all(nodes.map((node) => ask(node, (client) => client.cluster('MYID'))));
  await Promise.all(nodes.map((node, i) => prepare(node, i, masters)));
  await meet(nodes, ids);
  await Promise.all(nodes.slice(masters).map((node, i) => follow(node, ids[i % masters])));
  await Promise.all(nodes.map((node, i) => until('The cluster', () => isReady(node, nodes.length, i >= masters))));
  // A replica that has never received anything counts as empty, and nodes do not report it to clients.
  await Promise.all(nodes.slice(0, masters).map((node) => ask(node, (client) => client.flushall())));
  await Promise.all(
    nodes.map((node) => until('Reporting all replicas', () => tellsOfAll(node, masters, nodes.length))),
  );
}

/** Sets a different epoch on each node: nodes with equal epochs would have to resolve them one after the other. */
function prepare(node, i, masters) {
  return ask(node, async (client) => {
    await client.call('CLUSTER', 'SET-CONFIG-EPOCH', i + 1);
    if (i >= masters) return;
    const slotsBefore = (count) => Math.floor((SLOTS * count) / masters);
    await client.call('CLUSTER', 'ADDSLOTSRANGE', slotsBefore(i), slotsBefore(i + 1) - 1);
  });
}

/** Introduces every node to every other: gossip alone takes seconds. */
async function meet(nodes, ids) {
  const busOf = ({ args }) => args[args.indexOf('--cluster-announce-bus-port') + 1];
  const greet = (node, others) =>
    ask(node, async (client) => {
      for (const other of others) await client.call('CLUSTER', 'MEET', HOST, other.port, busOf(other));
    });
  await Promise.all(nodes.map((node, i) => greet(node, nodes.slice(0, i))));
  const knowsAll = async (client) => {
    const known = await client.call('CLUSTER', 'NODES');
    return ids.every((id) => known.includes(id));
  };
  await Promise.all(nodes.map((node) => until('Knowing all nodes', () => ask(node, knowsAll))));
}

function follow(node, masterId) {
  return ask(node, (client) => client.call('CLUSTER', 'REPLICATE', masterId));
}

async function isReady(node, count, isReplica) {
  const state = await ask(node, (client) => client.call('CLUSTER', 'INFO'));
  const isComplete = state.includes('cluster_state:ok') && state.includes(`cluster_known_nodes:${count}\r`);
  return isComplete && (!isReplica || inSync(node));
}

async function tellsOfAll(node, masters, count) {
  const ranges = await ask(node, (client) => client.cluster('SLOTS'));
  return ranges.length === masters && ranges.flatMap(([, , ...addresses]) => addresses).length === count;
}
