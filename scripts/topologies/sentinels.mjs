import { randomBytes } from 'node:crypto';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { freePorts, makeFolder, startRedisServer, withFreshPorts } from '../redis.mjs';
import { HOST, ask, every, inSync, orCleanUp, startTogether, stopAll, until } from './servers.mjs';

const NAME = 'mymaster';
const FAILOVER_TIMEOUT_MS = 2_000;

/**
 * Starts a master, two replicas and three sentinels with a quorum of two; resolves when all know each other.
 * @param {object} [options]
 * @param {number} [options.downAfterMs] How long a server may be silent before it counts as down.
 * @param {string} [options.host] The address or host name that the servers announce.
 * @returns {Promise<{
 *   connection: { sentinels: import('./servers.mjs').Address[], name: string },
 *   master: import('../redis.mjs').StartedRedis,
 *   replicas: import('../redis.mjs').StartedRedis[],
 *   sentinels: import('../redis.mjs').StartedRedis[],
 *   stop: () => Promise<void>,
 * }>} `master` is the first master.
 */
export async function startSentinels({ downAfterMs = 700, host = HOST } = {}) {
  const folder = makeFolder();
  const started = [];
  const stop = async () => {
    await stopAll(started);
    folder.remove();
  };
  return orCleanUp(stop, async () => {
    const [master, ...replicas] = await startReplication(started, host);
    const { ids, sentinels } = await withFreshPorts(() =>
      launchSentinels(folder.path, { master, replicas, downAfterMs, host }),
    );
    started.push(...sentinels);
    await until('The view of all sentinels', async () => {
      await introduce(sentinels, ids, { master, host });
      return every(sentinels, seesAll);
    });
    return {
      connection: { sentinels: sentinels.map(({ port }) => ({ host, port })), name: NAME },
      master,
      replicas,
      sentinels,
      stop,
    };
  });
}

async function startReplication(started, host) {
  const args = ['--repl-diskless-sync', 'yes', '--repl-diskless-sync-delay', '0', '--replica-announce-ip', host];
  const master = await startRedisServer({ args });
  started.push(master);
  const follow = ['--replicaof', host, String(master.port)];
  const start = () => startRedisServer({ args: [...args, ...follow] });
  const replicas = await startTogether([start, start]);
  started.push(...replicas);
  await until('Replication', () => every(replicas, inSync));
  return [master, ...replicas];
}

async function launchSentinels(folder, monitored) {
  const ports = await freePorts(3);
  const ids = ports.map(() => randomBytes(20).toString('hex'));
  const starts = ports.map((port, i) => () => {
    const file = join(folder, `sentinel-${port}.conf`);
    writeFileSync(file, sentinelFile(port, ids[i], monitored));
    // A sentinel writes its working folder into its file, so that folder must outlive the server.
    return startRedisServer({ port, args: [file, '--sentinel', '--dir', folder] });
  });
  return { ids, sentinels: await startTogether(starts) };
}

/** Sentinels keep this file up to date, so a restart with the same arguments continues with it. */
function sentinelFile(port, id, { master, replicas, downAfterMs, host }) {
  const names = ['resolve-hostnames', 'announce-hostnames'].map((setting) => `sentinel ${setting} yes`);
  const lines = [
    `port ${port}`,
    ...(host === HOST ? [] : names),
    `sentinel myid ${id}`,
    `sentinel monitor ${NAME} ${host} ${master.port} 2`,
    `sentinel down-after-milliseconds ${NAME} ${downAfterMs}`,
    `sentinel failover-timeout ${NAME} ${FAILOVER_TIMEOUT_MS}`,
    ...replicas.map((replica) => `sentinel known-replica ${NAME} ${host} ${replica.port}`),
  ];
  return `${lines.join('\n')}\n`;
}

/**
 * Publishes the hello of each sentinel, which does so only every two seconds. If its file named the others, it would connect before they
 * are up, and again a second later.
 */
function introduce(sentinels, ids, { master, host }) {
  return ask(master, (client) =>
    Promise.all(
      sentinels.map(({ port }, i) => {
        const hello = [HOST, port, ids[i], 0, NAME, host, master.port, 0];
        return client.publish('__sentinel__:hello', hello.join());
      }),
    ),
  );
}

/** Whether a sentinel talks to all servers, sees both replicas in sync, and can reach its quorum. */
function seesAll(sentinel) {
  return ask(sentinel, async (client) => {
    const replicas = await list(client, 'REPLICAS');
    const others = await list(client, 'SENTINELS');
    await client.call('SENTINEL', 'CKQUORUM', NAME);
    const follow = replicas.filter((one) => one.flags === 'slave' && one['master-link-status'] === 'ok');
    return follow.length === 2 && others.filter(({ flags }) => flags === 'sentinel').length === 2;
  });
}

async function list(client, of) {
  const pairsOf = (fields) => fields.flatMap((name, i) => (i % 2 === 0 ? [[name, fields[i + 1]]] : []));
  return (await client.call('SENTINEL', of, NAME)).map((fields) => Object.fromEntries(pairsOf(fields)));
}
