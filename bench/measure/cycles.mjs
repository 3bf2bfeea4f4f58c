import { startSide } from './side.mjs';

/** Takes and releases many locks, and looks at what is left in the process and in Redis. */
export async function cycles({ candidates, count }, { servers: [{ port }], watch }) {
  const rows = [];
  for (const name of candidates) {
    await watch.clear();
    const memory = await watch.memory();
    const side = await startSide(name, { port });
    const left = await side.run('cycles', { count });
    rows.push({ name, ...left, keys: await watch.keys(), redisKiB: ((await watch.memory()) - memory) / 1_024 });
    await side.end();
  }
  return rows;
}
