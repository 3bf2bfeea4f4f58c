import { setTimeout as sleep } from 'node:timers/promises';
import { BASELINE } from '../candidates/index.mjs';
import { countCommands } from './server.mjs';
import { startSide } from './side.mjs';

const PERIODS = 3;

/** Holds many locks and lets the candidates renew them; the baseline does not renew, and is left out. */
export async function leases({ candidates, locks, leaseMs, isShort }, { servers, watch }) {
  const rows = [];
  for (const name of candidates.filter((one) => one !== BASELINE)) {
    await watch.clear();
    const side = await startSide(name, { port: servers[0].port, leaseMs });
    const { heap } = await side.run('hold', { locks });
    const before = await watch.cpuMicros();
    const { elapsedMs, cpuMicros } = await side.run('idle', { ms: (isShort ? 1 : PERIODS) * leaseMs });
    const redisMicros = (await watch.cpuMicros()) - before;
    const stop = await countCommands(servers);
    await sleep(leaseMs);
    const { commands } = await stop();
    const { lost } = await side.run('letGo');
    await side.end();
    const share = (micros) => (100 * micros) / (1_000 * elapsedMs);
    rows.push({
      name,
      perSecond: (1_000 * commands) / leaseMs,
      client: share(cpuMicros),
      redis: share(redisMicros),
      heap,
      lost,
    });
  }
  return rows;
}
