import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { type Redis } from 'ioredis';
import { type RedisLockModuleOptions } from '../../lib/index.js';
import { buildPackage } from '../support/processes/child-app.js';
import { killConnections, ownRedis } from '../support/redis/own-redis.js';
import { closeAll, closeLater } from '../support/apps/lock-app.js';
import { describeOnRedis, itOnSingle, topology } from '../support/topologies/topology.js';

const PROCESSES = 4;
/** How often each process counts up each counter; more for longer runs. */
const ROUNDS = Number(process.env['FUZZ_ROUNDS'] ?? 50);
const EXPECTED = String(PROCESSES * ROUNDS);
const COUNTERS = ['count-a', 'count-b'];
const LIMIT_MS = 60_000 + 1_000 * ROUNDS;

interface Scene {
  /** Of the Redis with the counters, where the locks are, too, when the topology is one Redis. */
  readonly url: string;
  readonly locked: boolean;
}

function startWorker({ url, locked }: Scene): ChildProcess {
  const connection: RedisLockModuleOptions['connection'] = topology.isSingle ? url : topology.connection;
  const argument = JSON.stringify({ connection, url, rounds: ROUNDS, counters: COUNTERS, locked });
  const worker = fork(join(process.cwd(), 'test', 'support', 'processes', 'fuzz-worker.mjs'), [argument], {
    execArgv: [],
  });
  closeLater({
    close: async () => {
      if (worker.exitCode === null && worker.signalCode === null) worker.kill('SIGKILL');
    },
  });
  return worker;
}

/** Has several processes count up the same counters; gives the counts. */
async function countUp(admin: Redis, scene: Scene): Promise<(string | null)[]> {
  const workers = Array.from({ length: PROCESSES }, () => startWorker(scene));
  const exits = workers.map((worker) => once(worker, 'exit'));
  await Promise.all(workers.map((worker) => once(worker, 'message')));
  for (const worker of workers) worker.send('go');
  expect(await Promise.all(exits)).toEqual(workers.map(() => [0, null]));
  return admin.mget(COUNTERS);
}

async function withFaults<T>(faults: () => Promise<unknown>, everyMs: number, run: () => Promise<T>): Promise<T> {
  const timer = setInterval(() => void faults().catch(() => undefined), everyMs);
  return run().finally(() => clearInterval(timer));
}

describeOnRedis('processes that read, wait and write', () => {
  beforeAll(buildPackage, 90_000);
  afterEach(closeAll);

  it(
    'lose updates without the lock',
    async () => {
      const { url, admin } = await ownRedis();
      for (const count of await countUp(admin, { url, locked: false }))
        expect(Number(count)).toBeLessThan(Number(EXPECTED));
    },
    LIMIT_MS,
  );

  it(
    'lose no update under the lock',
    async () => {
      const { url, admin } = await ownRedis();
      expect(await countUp(admin, { url, locked: true })).toEqual([EXPECTED, EXPECTED]);
    },
    LIMIT_MS,
  );

  itOnSingle(
    'lose no update under the lock while connections are killed and scripts are flushed',
    async () => {
      const { url, admin } = await ownRedis();
      let turn = 0;
      const faults = async () => {
        turn += 1;
        await killConnections(admin, turn % 2 === 0 ? 'pubsub' : 'normal');
        if (turn % 5 === 0) await admin.script('FLUSH');
      };
      const counts = await withFaults(faults, 250, () => countUp(admin, { url, locked: true }));
      expect(counts).toEqual([EXPECTED, EXPECTED]);
    },
    LIMIT_MS,
  );
});
