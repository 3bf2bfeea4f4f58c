import { writeLua } from '../../../scripts/lua.mjs';
import process from 'node:process';
import { provideRedis } from '../../../scripts/redis.mjs';
import { startCluster, startQuorum, startSecured, startSentinels } from '../../../scripts/topologies.mjs';
import { ask } from '../../../scripts/topologies/servers.mjs';

/** Tolerates a machine that freezes, since no test of the contract is about a failover. */
const PATIENT_MS = 20_000;

/** How to start the topology of TOPOLOGY. `admins`: the addresses of all stores with a separate copy, for tests that look at the data. */
const START = {
  cluster: () => startCluster({ nodeTimeoutMs: PATIENT_MS }),
  sentinel: () => startSentinels({ downAfterMs: PATIENT_MS }),
  async secured() {
    const secured = await startSecured();
    const { server, admin, connection } = secured;
    // What the history needs in addition to the documented permissions.
    const rights = ['+xadd', '+xtrim', '+xrevrange'];
    await ask(server, (client) => client.acl('SETUSER', connection.username, ...rights), admin);
    return { ...secured, admins: [secured.admin] };
  },
  async quorum() {
    const quorum = await startQuorum(5);
    return { ...quorum, admins: quorum.connection };
  },
  /** Two of three nodes are up, so that every grant needs both. */
  async 'quorum-degraded'() {
    const quorum = await startQuorum(3);
    await quorum.servers[2].kill();
    return { ...quorum, admins: quorum.connection.slice(0, 2) };
  },
};

/** A misspelt one would be that of a run without it. */
const CHOICES = {
  TOPOLOGY: ['single', 'memory', ...Object.keys(START)],
  LIBRARY: ['ioredis', 'iovalkey', 'node-redis'],
};

/** Starts the Redis of all test files, and their topology. The workers find them in REDIS_URL and TOPOLOGY_ADDRESSES. */
export default async function globalSetup() {
  writeLua();
  const { REDIS_URL, TOPOLOGY } = process.env;
  for (const [variable, names] of Object.entries(CHOICES)) {
    const name = process.env[variable];
    if (name && !names.includes(name)) throw new Error(`${variable}=${name}: expected one of ${names.join(', ')}.`);
  }
  globalThis.startedForTests = [];
  if (!REDIS_URL) {
    const redis = await provideRedis();
    globalThis.startedForTests.push({ variable: 'REDIS_URL', stop: () => redis.stop() });
    process.env.REDIS_URL = redis.url;
  }
  if (START[TOPOLOGY]) {
    const topology = await START[TOPOLOGY]();
    globalThis.startedForTests.push({ variable: 'TOPOLOGY_ADDRESSES', stop: () => topology.stop() });
    const { connection, admins = [connection] } = topology;
    process.env.TOPOLOGY_ADDRESSES = JSON.stringify({ connection, admins });
  }
}
