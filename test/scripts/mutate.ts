import { type LockScripts } from '../../lib/redis/scripts/lock-scripts.js';

/** One way to break the scripts: its name, a piece of their text, and its replacement. */
export type Mutant = readonly [name: string, find: string, replace: string];

/** The scripts with one mutant in them; throws when their text does not have the place. */
export function mutate(scripts: LockScripts, [name, find, replace]: Mutant): LockScripts {
  const entries = Object.entries(scripts).map(([script, text]) => [script, text.replaceAll(find, () => replace)]);
  if (entries.every(([script, text]) => text === scripts[script as keyof LockScripts])) {
    throw new Error(`The scripts have no place for the mutant "${name}".`);
  }
  return Object.fromEntries(entries) as LockScripts;
}
