import { type DemotionReason, type Leadership } from '../../../lib/index.js';
import { type LockApp, startApp } from '../../support/apps/lock-app.js';

/** So long that no test sees the end of one. */
export const LONG_MS = 120_000;

export interface Candidate extends LockApp {
  readonly leadership: Leadership;
  /** What it was told, in order. */
  readonly told: string[];
}

/** Starts an instance that campaigns; `leading` has the instances that lead now. */
export async function campaign(key: string, leading = new Set<unknown>(), leaseMs = LONG_MS): Promise<Candidate> {
  const app = await startApp();
  const told: string[] = [];
  const leadership = app.locks.lead(key, {
    leaseMs,
    onElected: () => {
      told.push(leading.size === 0 ? 'elected' : 'elected beside another');
      leading.add(app);
    },
    onDemoted: (_term, reason: DemotionReason) => {
      leading.delete(app);
      told.push(reason);
    },
  });
  return Object.assign(app, { leadership, told });
}
