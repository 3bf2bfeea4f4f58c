// Runs plans of the simulation on mutated sources; ends with status 1 if a rule is broken.
import process from 'node:process';
import { createLoader } from '../simulation/library/typescript-loader.mjs';

const PROFILES = [
  'calm',
  'both',
  'turnsProcesses',
  'transfersNetwork',
  'nested',
  'quorumNetwork',
  'sentinelConfirm',
  'wall',
];

Error.stackTraceLimit = 0;
const { findNothing } = createLoader()('test/simulation/planted/find-bug.ts');
for (const profile of PROFILES) {
  const found = await findNothing(profile);
  if (!found) continue;
  console.log(found.violations[0].rule);
  process.exit(1);
}
