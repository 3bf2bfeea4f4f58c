// The history of this process. Every line is written at once, so that a kill loses none.
import { openSync, writeSync } from 'node:fs';
import process from 'node:process';

/** CLOCK_MONOTONIC in milliseconds: the same clock in all processes of a machine. */
export const now = () => Number(process.hrtime.bigint()) / 1e6;

export function openLog(file, name) {
  const descriptor = openSync(file, 'a');
  return (e, fields = {}, t = now()) => writeSync(descriptor, `${JSON.stringify({ t, p: name, e, ...fields })}\n`);
}
