// Writes lib/redis/scripts/texts.ts: each Lua script with the fragments that it includes, without comments and indentation.
import { existsSync, readFileSync, readdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { isStarted, root } from './checks.mjs';

const folder = join(root, 'lib', 'redis', 'scripts');
export const TEXTS = join(folder, 'texts.ts');
const code = (text) =>
  text
    .replace(/(^| +)-- .*$|^ *---.*$|^ +/gm, '')
    .replace(/\n+/g, '\n')
    .trim();
const camel = (name) => name.replace(/-(.)/g, (_dash, letter) => letter.toUpperCase());

/**
 * The text of texts.ts. A fragment has no separate purpose.
 * @param {(file: string) => string} [read]
 */
export function textOfScripts(read = (file) => readFileSync(file, 'utf8')) {
  const include = (file) =>
    read(join(folder, file)).replace(/^ *--- @include (\S+)$/gm, (_line, part) => include(`${part}.lua`));
  const scripts = readdirSync(folder).filter((one) => one.endsWith('.lua') && include(one).startsWith('--- @purpose'));
  const entries = scripts.map((one) => `  ${camel(one.slice(0, -4))}: ${JSON.stringify(code(include(one)))},\n`);
  return `// Made of the .lua files by scripts/lua.mjs.\nexport const TEXTS = {\n${entries.join('')}};\n`;
}

/** Does not write an unchanged file: compilers watch it. */
export function writeLua() {
  const text = textOfScripts();
  if (!existsSync(TEXTS) || readFileSync(TEXTS, 'utf8') !== text) writeFileSync(TEXTS, text);
}

if (isStarted(import.meta.url)) writeLua();
