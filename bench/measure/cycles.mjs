import { startSide } from './side.mjs';

/** A slow candidate stops after this time; the table shows its number of cycles. */
const LIMIT_MS = 60_000;

/** Takes and releases many locks, and measures what remains in the process and in Redis. */
export async function cycles({ candidates, count }, { servers: [{ port }], watch }) {
  const rows = [];
  for (const name of candidates) {
    await watch.clear();
    const memory = await watch.memory();
    const side = await startSide(name, { port });
    try {
      const left = await side.run('cycles', { count, ms: LIMIT_MS });
      const redisKiB = ((await watch.memory()) - memory) / 1_024;
      rows.push({ name, ...left, keys: await watch.keys(), others: await watch.othersThan('bench:cycle:'), redisKiB });
    } finally {
      await side.end();
    }
  }
  return rows;
}
