// The clock of a run, and when a process stood still by it.
import process from 'node:process';

/** CLOCK_MONOTONIC in milliseconds: the same clock in all processes of a machine. */
export const now = () => Number(process.hrtime.bigint()) / 1e6;

const TICK_MS = 20;
/** A timer that is later than this is a standstill. */
const LATE_MS = 15;

/**
 * Checks repeatedly whether this process stood still.
 * @param {(from: number, to: number) => void} report
 * @param {() => void} [onTick]
 * @returns {() => void} stops looking
 */
export function watchStandstills(report, onTick = () => undefined) {
  let last = now();
  const ticks = setInterval(() => {
    const at = now();
    if (at - last > TICK_MS + LATE_MS) report(last, at);
    last = at;
    onTick();
  }, TICK_MS);
  return () => clearInterval(ticks);
}
