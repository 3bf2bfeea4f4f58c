// The history of this process. Every line is written at once, so that a kill loses none.
import { openSync, writeSync } from 'node:fs';
import { now } from './standstills.mjs';

export function openLog(file, name) {
  const descriptor = openSync(file, 'a');
  return (e, fields = {}, t = now()) => writeSync(descriptor, `${JSON.stringify({ t, p: name, e, ...fields })}\n`);
}
