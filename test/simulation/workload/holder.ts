import { type Judge } from '../judge/judge.js';
import { type Held } from './call.js';
import { type SimProcess } from '../world/sim-process.js';
import { type HolderStep } from './plan.js';

/** Does what a holder does, until it has held for as long as it wanted to, or has noticed a loss. */
export async function hold(held: Held, judge: Judge): Promise<void> {
  const { call } = held;
  const { process, plan } = call;
  const until = process.clock.now() + plan.holdMs;
  const lost = lossOf(held);
  for (const step of plan.steps) {
    if (await lost.within(step.afterMs)) break;
    await doStep(held, step, judge);
    if (process.clock.now() >= until) break;
  }
  // Work may be done before any timer fires.
  if (plan.holdMs === 0 && plan.steps.length === 0) return;
  if (await lost.within(until - process.clock.now())) await process.sleep(plan.afterLossMs);
}

/** Waits until the holder hears of a loss. Those that do not listen look at `held` only at the end. */
function lossOf({ lock, call }: Held): { within(ms: number): Promise<boolean> } {
  const { plan, process } = call;
  const signal = plan.listens ? lock.signal : undefined;
  return { within: (ms) => waitWithin(process, signal, ms) };
}

/** Waits for so long, or until the signal is aborted. Returns whether it is. */
export const waitWithin = (process: SimProcess, signal: AbortSignal | undefined, ms: number): Promise<boolean> =>
  new Promise<boolean>((resolve) => {
    if (signal?.aborted) return resolve(true);
    const onAbort = (): void => (cancel(), resolve(true));
    const cancel = process.clock.setTimer(
      () => {
        signal?.removeEventListener('abort', onAbort);
        resolve(false);
      },
      Math.max(ms, 0),
    );
    signal?.addEventListener('abort', onAbort, { once: true });
  });

async function doStep(held: Held, { does, leaseMs }: HolderStep, judge: Judge): Promise<void> {
  const { lock, call } = held;
  const { world } = call.process;
  judge.facts.called(does);
  world.log(() => `${call.process.name} ${call.name} ${does}${leaseMs === undefined ? '' : `(${leaseMs})`}`);
  try {
    if (does === 'extend') {
      const from = { at: world.now, mono: call.process.clock.now() };
      await lock.extend(leaseMs!);
      judge.onExtended(held, leaseMs!, from);
    } else if (does === 'downgrade') {
      await lock.downgrade();
      judge.onDowngraded(held);
    } else {
      await call.app.service[does](lock.keys[0]!);
    }
  } catch (error) {
    judge.onStepFailed(held, does, error);
  }
}
