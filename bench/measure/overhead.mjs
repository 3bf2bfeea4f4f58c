import { OURS } from '../candidates/index.mjs';
import { spreadOf } from './figures.mjs';
import { startSide } from './side.mjs';

/** Measures what something of ours costs on top of a plain call: CPU of the process, and promises. */
export async function overhead({ calls: { plain, more, per }, ms, rounds }, { servers: [{ port }] }) {
  const [isPlain, isMore] = await Promise.all([plain, more].map((options) => startSide(OURS, { port, ...options })));
  try {
    const slice = async (side, loop) => {
      const { calls, cpuMicros } = await side.run('loop', { ...loop, callers: 1, ms });
      return cpuMicros / calls;
    };
    const differences = [];
    const ratios = [];
    for (let round = -1; round < rounds; round++) {
      const [without, with_] = [await slice(isPlain, plain), await slice(isMore, more)];
      // The first round warms up.
      if (round < 0) continue;
      differences.push((with_ - without) / per);
      ratios.push(without / with_);
    }
    const counts = [];
    for (const [side, loop] of [
      [isPlain, plain],
      [isMore, more],
    ]) {
      counts.push(await side.run('count', { ...loop, callers: 1, ms }));
    }
    const promises = (counts[1].promises - counts[0].promises) / per;
    return [{ name: OURS, micros: spreadOf(differences), promises }];
  } finally {
    await Promise.all([isPlain, isMore].map((side) => side.end()));
  }
}
