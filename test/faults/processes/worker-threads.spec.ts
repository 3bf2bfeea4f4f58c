import { once } from 'node:events';
import { join } from 'node:path';
import { Worker } from 'node:worker_threads';
import { closeAll, closeLater, freshKey } from '../../support/apps/lock-app.js';
import { buildPackage, withLibrary } from '../../support/processes/child-app.js';
import { redisUrl } from '../../support/topologies/topology.js';

const THREADS = 3;
const ROUNDS = 40;
const SCRIPT = join(process.cwd(), 'test', 'support', 'processes', 'counting-worker.mjs');

/** Has several threads count up one number; returns it. */
async function countUp(isLocked: boolean): Promise<number> {
  const memory = new SharedArrayBuffer(8);
  const size = { threads: THREADS, rounds: ROUNDS };
  const data = { options: { connection: redisUrl() }, key: freshKey(), ...size, isLocked, memory };
  const workers = Array.from({ length: THREADS }, () => new Worker(SCRIPT, { workerData: data, ...withLibrary }));
  for (const worker of workers) closeLater({ close: () => worker.terminate() });
  const ends = workers.map((worker) => once(worker, 'exit'));
  expect(await Promise.all(ends)).toEqual(workers.map(() => [0]));
  return new Int32Array(memory)[0]!;
}

describe('worker threads of one process', () => {
  beforeAll(buildPackage, 90_000);
  afterEach(closeAll);

  it('exclude each other, and lose updates without the lock', async () => {
    expect(await countUp(true)).toBe(THREADS * ROUNDS);
    expect(await countUp(false)).toBeLessThan(THREADS * ROUNDS);
  });
});
