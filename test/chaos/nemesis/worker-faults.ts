import { setTimeout as sleep } from 'node:timers/promises';
import { type Randoms } from '../worker/random.mjs';
import { type Worker } from '../workers.js';
import { type FaultKind } from './fault-kind.js';

/** What happens to the processes of an app. Leases are 300 to 3,000 ms. */
export function workerFaults(workers: readonly Worker[]): FaultKind[] {
  const onOne = (
    name: string,
    lasts: (random: Randoms) => number,
    inflict: (worker: Worker, ms: number) => Promise<void>,
  ): FaultKind => ({
    name,
    plan(random) {
      const worker = random.pick(workers);
      const lastsMs = lasts(random);
      return { target: worker.name, worker: worker.name, lastsMs, inflict: () => inflict(worker, lastsMs) };
    },
  });
  return [
    onOne(
      'process stopped',
      (random) => random.between(200, 4_500),
      async (worker, ms) => {
        worker.suspend();
        await sleep(ms);
        worker.resume();
      },
    ),
    onOne(
      'process killed',
      () => 1_000,
      (worker) => worker.killAndRestart(),
    ),
    onOne(
      'app closed',
      () => 2_000,
      (worker) => worker.closeAndRestart(),
    ),
    onOne(
      'event loop blocked',
      (random) => random.between(100, 2_500),
      async (worker, ms) => {
        worker.block(ms);
        await sleep(ms);
      },
    ),
  ];
}
