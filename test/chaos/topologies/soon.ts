import { setTimeout as sleep } from 'node:timers/promises';
import { now } from '../worker/standstills.mjs';

/** Waits until the condition is true, but no longer than this. */
export async function soon(withinMs: number, condition: () => Promise<boolean>): Promise<void> {
  for (const end = now() + withinMs; now() < end && !(await condition());) await sleep(100);
}
