import { setTimeout as sleep } from 'node:timers/promises';

/** Stands for work that takes time and stops when its lock is lost. */
export const pause = (ms: number, signal: AbortSignal): Promise<void> => sleep(ms, undefined, { signal });
