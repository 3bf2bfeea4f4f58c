import { randomBytes } from 'node:crypto';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { freePorts, makeFolder, startRedisServer, withFreshPorts } from '../redis.mjs';
import { HOST, address, ask, every, inSync, orCleanUp, startTogether, stopAll, until } from './servers.mjs';

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
 * @param {(port: number) => string[]} [options.argsOf] Further arguments of the node with that port.
 * @returns {Promise<StartedCluster>}
 */
export function startCluster(options = {}) {
  return withFreshPorts(() => start(options));
}

async function start({
  masters: count = 3,
  replicas = 1,
  nodeTimeoutMs = 1_500,
  announceBus = (port) => port,
  argsOf = () => [],
}) {
  const folder = makeFolder();
  const nodes = [];
  const stop = async () => {
    await stopAll(nodes);
    folder.remove();
  };
  return orCleanUp(stop, async () => {
    const members = await plan(count, count * (1 + replicas), announceBus);
    const launch = async (some) => {
      const startMember = (me) => startNode(folder.path, me, members, nodeTimeoutMs, argsOf(me.port));
      const started = await startTogether(some.map((me) => () => startMember(me)));
      nodes.push(...started);
      return started;
    };
    const masters = await launch(members.slice(0, count));
    await takeOver(masters);
    const others = await launch(members.slice(count));
    await until('The cluster', () => every(nodes, (node) => agrees(node, members)));
    await Promise.all(masters.map((node) => forgetOwners(node, members)));
    // A replica that has never received anything counts as empty, and nodes do not report it to clients.
    await Promise.all(masters.map((node) => ask(node, (client) => client.flushall())));
    await until('Reporting all replicas', async () => {
      await Promise.all(others.map(report));
      return every(nodes, (node) => reportsAll(node, count, nodes.length));
    });
    return { connection: { cluster: nodes.map(address) }, masters, replicas: others, stop };
  });
}

/**
 * A node that starts as a master serves nothing for two seconds. So each master starts as the replica of an `owner` of its slots,
 * which does not exist, and takes these over.
 */
async function plan(masters, size, announceBus) {
  const ports = await freePorts(2 * size);
  const members = Array.from({ length: size }, async (_, i) => {
    const [port, bus] = ports.slice(2 * i);
    return {
      id: newId(),
      port,
      bus,
      announced: await announceBus(bus),
      nr: i % masters,
      owner: i < masters && newId(),
    };
  });
  return Promise.all(members);
}

const newId = () => randomBytes(20).toString('hex');

/** Its file is in the cluster's folder, so a restart with the same port and arguments is the same node. */
function startNode(folder, me, members, nodeTimeoutMs, more) {
  const file = join(folder, `nodes-${me.port}.conf`);
  writeFileSync(file, nodesFile(me, members));
  const settings = {
    enabled: 'yes',
    // By default the bus has the port plus 10,000, which may be taken or not a port at all.
    port: String(me.bus),
    'config-file': file,
    'announce-ip': HOST,
    'announce-bus-port': String(me.announced),
    'node-timeout': String(nodeTimeoutMs),
    'allow-replica-migration': 'no',
  };
  const args = Object.entries(settings).flatMap(([name, value]) => [`--cluster-${name}`, value]);
  return startRedisServer({ port: me.port, args: [...args, '--repl-diskless-sync-delay', '0', ...more] });
}

/** What a node knows at its start: a master that no master has taken over yet, and a replica that all have. */
function nodesFile(me, members) {
  const masters = members.filter(({ owner }) => owner);
  const slotsBefore = (count) => Math.floor((SLOTS * count) / masters.length);
  const slotsOf = (nr) => `${slotsBefore(nr)}-${slotsBefore(nr + 1) - 1}`;
  const lines = members.flatMap((member) => {
    const { id, port, announced, nr, owner } = member;
    const self = `${id} ${HOST}:${port}@${announced} ${member === me ? 'myself,' : ''}`;
    if (!owner) return `${self}slave ${masters[nr].id} 0 0 0 connected`;
    if (!me.owner) return `${self}master - 0 0 ${masters.length + nr + 1} connected ${slotsOf(nr)}`;
    const before = `${owner} :0@0 master,noaddr - 0 0 ${nr + 1} connected ${slotsOf(nr)}`;
    return [before, `${self}slave ${owner} 0 0 0 connected`];
  });
  return [...lines, `vars currentEpoch ${masters.length} lastVoteEpoch 0`, ''].join('\n');
}

/** One after the other: masters that took over in the same epoch would settle that first, which takes a second. */
async function takeOver(masters) {
  for (const [i, node] of masters.entries()) {
    await until('A node', async () => {
      if (i > 0) await report(masters[i - 1]);
      const state = await stateOf(node);
      return isUp(state) && state.includes(`cluster_current_epoch:${masters.length + i}\r`);
    });
    await ask(node, (client) => client.call('CLUSTER', 'FAILOVER', 'TAKEOVER'));
  }
}

const stateOf = (node) => ask(node, (client) => client.call('CLUSTER', 'INFO'));

const isUp = (state) => state.includes('cluster_state:ok');

/** Whether a node serves, and knows the roles and slots of all nodes. */
async function agrees(node, members) {
  const known = await ask(node, (client) => client.call('CLUSTER', 'NODES'));
  const rows = new Map(known.split('\n').map((line) => [line.split(' ')[0], line.split(' ')]));
  const hasRole = ({ id, owner }) => {
    const [, , flags, , , , , link, slots] = rows.get(id);
    return flags.includes(owner ? 'master' : 'slave') && Boolean(slots) === Boolean(owner) && link === 'connected';
  };
  const { owner } = members.find(({ port }) => port === node.port);
  return members.every(hasRole) && isUp(await stateOf(node)) && (Boolean(owner) || inSync(node));
}

function forgetOwners(node, members) {
  return ask(node, async (client) => {
    for (const { owner } of members) if (owner) await client.call('CLUSTER', 'FORGET', owner);
  });
}

/** Every message on the bus has the epoch of its sender, and the position of a replica. This one goes to all nodes at once. */
const report = (node) => ask(node, (client) => client.publish('started', ''));

async function reportsAll(node, masters, count) {
  const ranges = await ask(node, (client) => client.cluster('SLOTS'));
  return ranges.length === masters && ranges.flatMap(([, , ...addresses]) => addresses).length === count;
}
