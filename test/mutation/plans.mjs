// Runs plans of the simulation on mutated sources, one mutant after the other (MUTANTS): is sent the number of a mutant, and sends
// the rule that it breaks, if any. A run leaves nothing: its time is virtual, and it loads the library again.
import process from 'node:process';
import { setImmediate } from 'node:timers/promises';
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
const NONE = -1;
let active = NONE;
globalThis.$mutant = Object.assign((id) => id === active, { reached: new Set() });
const { findNothing } = createLoader()('test/simulation/planted/find-bug.ts');

/** The rule that a run breaks with a mutant, or how it fails. */
async function ruleOf(profile, id) {
  active = id;
  try {
    return (await findNothing(profile))?.violations[0].rule ?? null;
  } catch (error) {
    return String(error);
  } finally {
    // Rejections that nothing handles are reported at the end of a turn.
    await setImmediate();
  }
}

async function brokenBy(id) {
  for (const profile of PROFILES) {
    const rule = await ruleOf(profile, id);
    // Otherwise, what a mutant has left would count against the next ones.
    if (rule && (await ruleOf(profile, NONE))) return { left: profile };
    if (rule) return { rule };
  }
  return {};
}

process.on('message', (id) => void brokenBy(id).then((answer) => process.send(answer)));
