import { spawn } from 'node:child_process';
import { cpus } from 'node:os';
import process from 'node:process';
import { startRedisServer } from '../scripts/redis.mjs';
import { capacity } from './measure/capacity.mjs';
import { cluster } from './measure/cluster.mjs';
import { compare } from './measure/compare.mjs';
import { compiler } from './measure/compiler.mjs';
import { cycles } from './measure/cycles.mjs';
import { handOver } from './measure/hand-over.mjs';
import { leases } from './measure/leases.mjs';
import { overhead } from './measure/overhead.mjs';
import { scripts } from './measure/scripts.mjs';
import { watchServers } from './measure/server.mjs';
import { table } from './table.mjs';

const MEASURES = { capacity, cluster, compare, compiler, cycles, handOver, leases, overhead, scripts };

/** Shows in minutes that everything works; its figures are meaningless. */
const TINY = {
  counted: { count: 50, ms: 100 },
  locks: 100,
  leaseMs: 1_000,
  periods: 1,
  countMs: 1_000,
  count: 2_000,
  methods: 20,
};

/** Ends when its parent has ended, whatever ended it. */
const SPIN = 'const { ppid } = process; while (process.ppid === ppid) for (let i = 0; i < 1e8; i++);';

/**
 * Keeps the cores awake with processes that run only when the core is idle: on a virtual machine, a core that halts takes
 * longer to wake up than a command takes. Without `chrt`, cores may halt.
 */
function keepAwake() {
  const spinners = cpus().map(() =>
    spawn('chrt', ['--idle', '0', process.execPath, '-e', SPIN], { stdio: 'ignore' }).on('error', () => {}),
  );
  process.on('exit', () => spinners.forEach((one) => one.kill('SIGKILL')));
}

const tinyOf = ({ loop, ...workload }) => ({
  ...workload,
  ...TINY,
  ...(loop && { loop: { ...loop, callers: Math.min(loop.callers, 4) } }),
});

/** Measures workloads one after the other on their own server, and prints a table of each. */
export async function measureAll(workloads, { isFull, isTiny, rounds, ms }) {
  const results = [];
  keepAwake();
  for (const workload of workloads) {
    const startedAt = performance.now();
    const server = await startRedisServer();
    const watch = watchServers([server]);
    try {
      const candidates = [...workload.candidates, ...((isFull ? workload.all : workload.peers) ?? [])];
      const rows = await MEASURES[workload.measure](
        { rounds, ms, ...(isTiny ? tinyOf(workload) : workload), candidates },
        { servers: [server], watch },
      );
      results.push({ ...workload, rows });
      const seconds = Math.round((performance.now() - startedAt) / 1_000);
      console.log(`\n${workload.title} (${workload.name}; ${seconds} s)\n\n${table(workload, rows)}`);
    } finally {
      watch.close();
      await server.stop();
    }
  }
  return results;
}
