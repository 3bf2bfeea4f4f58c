import { createHash } from 'node:crypto';
import { OPERATIONS } from '../support/redis/wire-values.js';
import { type AnyScript, type AnyScripts } from './run-script.js';

/** One way to break the scripts: its name, a piece of their text, and what stands there instead; `<attempt>` is that ARGV. */
export type Mutant = readonly [name: string, find: string, replace: string];

/** The scripts with one mutant in them; throws when their text does not have the place. */
export function mutate(scripts: AnyScripts, [name, find, replace]: Mutant): AnyScripts {
  const entries = Object.entries(scripts).map(([operation, script]) => [operation, mutateOne(script, find, replace)]);
  if (entries.every(([operation, script]) => script === scripts[operation as keyof AnyScripts])) {
    throw new Error(`The scripts have no place for the mutant "${name}".`);
  }
  return Object.fromEntries(entries) as AnyScripts;
}

/** The operations of a batch are functions in its text, each with arguments of its own. */
function mutateOne(script: AnyScript, find: string, replace: string): AnyScript {
  let text = mutateText(script.text, script.args, find, replace);
  for (const { body } of Object.values(OPERATIONS)) {
    text = text.replace(body.text, () => mutateText(body.text, body.args, find, replace));
  }
  if (text === script.text) return script;
  return { ...script, text, sha1: createHash('sha1').update(text).digest('hex') };
}

function mutateText(text: string, args: readonly string[], find: string, replace: string): string {
  const position = (name: string) => args.indexOf(name) + 1;
  const [from, to] = [find, replace].map((part) => part.replace(/<(\w+)>/g, (_, name) => `ARGV[${position(name)}]`));
  return text.replaceAll(from!, () => to!);
}
