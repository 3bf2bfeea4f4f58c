import { setTimeout as sleep } from 'node:timers/promises';
import { type Recorder } from '../recorder.js';
import { now } from '../worker/standstills.mjs';
import { type PlannedFault } from './fault-kind.js';
import { type Appointment } from './plan.js';

/** Carries out a plan. Faults on one target come one after the other, also if one takes longer than planned. */
export async function carryOut(plan: readonly Appointment[], recorder: Recorder): Promise<void> {
  const start = now();
  const last = new Map<string, Promise<void>>();
  for (const [id, { atMs, fault }] of plan.entries()) {
    await sleep(Math.max(0, start + atMs - now()));
    const before = last.get(fault.target) ?? Promise.resolve();
    last.set(
      fault.target,
      before.then(() => inflict(id, fault, recorder)),
    );
  }
  await Promise.all(last.values());
}

async function inflict(id: number, fault: PlannedFault, recorder: Recorder): Promise<void> {
  const { kind, worker, forgets, stepsBackMs } = fault;
  const what = { kind, ...(worker !== undefined && { worker }), ...(forgets && { forgets }) };
  recorder.note({ e: 'fault', id, ...what, ...(stepsBackMs && { stepsBackMs }) });
  await fault.inflict();
  recorder.note({ e: 'over', id });
}
