import { setTimeout as sleep } from 'node:timers/promises';
import { type TcpProxy } from '../../support/network/tcp-proxy.js';
import { type Randoms } from '../worker/random.mjs';
import { type FaultKind } from './plan.js';
import { type Worker } from '../workers.js';

/** A worker, and its way to each server. */
export interface Route {
  readonly worker: string;
  readonly proxies: readonly TcpProxy[];
}

const isScript = (text: string): boolean => text.startsWith('evalsha');

/** What happens between one worker and one server. */
export function networkFaults(routes: readonly Route[]): FaultKind[] {
  const onOne = (
    name: string,
    lasts: (random: Randoms) => number,
    inflict: (proxy: TcpProxy, ms: number, random: Randoms) => Promise<void> | void,
  ): FaultKind => ({
    name,
    plan(random) {
      const { worker, proxies } = random.pick(routes);
      const i = random.between(0, proxies.length - 1);
      const lastsMs = lasts(random);
      const target = `network of ${worker} to ${i}`;
      return { target, worker, lastsMs, inflict: async () => inflict(proxies[i]!, lastsMs, random) };
    },
  });
  const forAWhile = (random: Randoms): number => random.between(200, 4_000);
  return [
    onOne('slow network', forAWhile, async (proxy, ms, random) => {
      proxy.delayMs = random.between(5, 250);
      await sleep(ms);
      proxy.delayMs = 0;
    }),
    onOne(
      'reply lost',
      () => 500,
      async (proxy, ms) => {
        proxy.dropNextReply(isScript);
        await sleep(ms);
        // If no command has come, none may lose its reply after the fault.
        proxy.dropNextReply(() => false);
      },
    ),
    onOne(
      'late command',
      (random) => random.between(50, 3_000),
      async (proxy, ms) => {
        const kept = proxy.keepNext(isScript);
        await sleep(ms);
        proxy.keepNext(() => false);
        if (kept.isKept) await Promise.race([kept.deliver(), sleep(100)]);
      },
    ),
    onOne('half-open connections', forAWhile, async (proxy, ms) => {
      proxy.blackhole(true);
      await sleep(ms);
      proxy.blackhole(false);
    }),
    onOne(
      'connections cut',
      () => 100,
      (proxy) => proxy.cutAll(),
    ),
    onOne('connections refused', forAWhile, async (proxy, ms) => {
      proxy.refuse(true);
      proxy.cutAll();
      await sleep(ms);
      proxy.refuse(false);
    }),
  ];
}

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
