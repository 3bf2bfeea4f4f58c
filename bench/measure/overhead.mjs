import { OURS } from '../candidates/index.mjs';
import { spreadOf } from './figures.mjs';
import { startSide } from './side.mjs';

/** A difference of a few microseconds shows only in many calls, of code that has long been compiled. */
const SLICES = 3;

const COUNTED = { callers: 1, count: 500, ms: 5_000 };

/** Measures the cost of one of our features on top of a plain call: CPU of the process, promises and bytes. */
export async function overhead({ calls: { plain, more, per }, ms, rounds }, { servers: [{ port }] }) {
  const side = await startSide(OURS, { port });
  try {
    const args = { plain, more, ms: SLICES * ms * rounds };
    await side.run('overhead', args);
    const differences = await side.run('overhead', args);
    const counted = async (task, name) => {
      const without = await side.run(task, { ...plain, ...COUNTED });
      const withIt = await side.run(task, { ...more, ...COUNTED });
      return (withIt[name] - without[name]) / per;
    };
    return [
      {
        name: OURS,
        micros: spreadOf(differences.map((micros) => micros / per)),
        promises: await counted('count', 'promises'),
        bytes: await counted('allocate', 'bytes'),
      },
    ];
  } finally {
    await side.end();
  }
}
