import { BASELINE } from '../candidates/index.mjs';
import { countCommands } from './server.mjs';
import { startSide } from './side.mjs';

/** Some candidates renew all at once: the commands of several of their periods are counted. */
const COUNT_MS = 12_000;

/**
 * Holds many locks and lets the candidates renew them; the baseline does not renew, and is left out.
 * A lease is lost if the candidate reports it, or if its key expired in Redis, also when it was taken back.
 */
export async function leases({ candidates, locks, leaseMs, periods, countMs = COUNT_MS }, { servers, watch }) {
  const rows = [];
  for (const name of candidates.filter((one) => one !== BASELINE)) {
    await watch.clear();
    const side = await startSide(name, { port: servers[0].port, leaseMs });
    try {
      const expiredBefore = await watch.expired();
      const memoryBefore = await watch.memory();
      const { heap } = await side.run('hold', { locks });
      const redisBytes = ((await watch.memory()) - memoryBefore) / locks;
      // In a real app, the renewals have long been JIT-compiled.
      await side.run('idle', { ms: leaseMs });
      const before = await watch.cpuMicros();
      const idle = await side.run('idle', { ms: periods * leaseMs });
      const redisMicros = (await watch.cpuMicros()) - before;
      const stop = await countCommands(servers);
      const counted = await side.run('idle', { ms: Math.max(leaseMs, countMs) });
      const { commands } = await stop();
      const expired = (await watch.expired()) - expiredBefore;
      const { lost } = await side.run('letGo');
      const share = (micros) => (100 * micros) / (1_000 * idle.elapsedMs);
      rows.push({
        name,
        perSecond: (1_000 * commands) / counted.elapsedMs,
        client: share(idle.cpuMicros),
        redis: share(redisMicros),
        heap,
        redisBytes,
        lost: Math.max(lost, expired),
      });
    } finally {
      await side.end();
    }
  }
  return rows;
}
