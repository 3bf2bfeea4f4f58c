// Compiles TypeScript to CommonJS while it is loaded, so that the simulation needs no build and can change the source.
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import vm from 'node:vm';
import { transformSync } from '@swc/core';
import { TEXTS, textOfScripts } from '../../../scripts/lua.mjs';
import { swcOptions, textOf } from '../../support/jest/compiled.cjs';

export const ROOT = dirname(dirname(dirname(dirname(fileURLToPath(import.meta.url)))));
const SELF = fileURLToPath(import.meta.url);
const requireFromRoot = createRequire(join(ROOT, 'package.json'));

const SWC = { ...swcOptions('commonjs'), sourceMaps: 'inline', configFile: false, swcrc: false };

/** Compiled functions by file and source text: libraries with different bugs share all other files. */
const compiled = new Map();

/**
 * @typedef {{ readonly file: string, readonly find: string, readonly replace: string }} Change
 * @param {{ changes?: readonly Change[], packages?: Readonly<Record<string, unknown>> }} [options] `changes`: replacements in
 *   the source, by file relative to the root; `packages`: what `require` returns for the names of packages
 * @returns {(file: string) => any} loads a file, given relative to the root; each loader has separate modules
 */
export function createLoader({ changes = [], packages = {} } = {}) {
  const modules = new Map();
  const load = (path) => {
    if (path === SELF) return { createLoader, ROOT };
    const known = modules.get(path);
    if (known) return known.exports;
    const module = { exports: {} };
    modules.set(path, module);
    const requireHere = (name) => {
      if (name.startsWith('.')) return load(join(dirname(path), name.replace(/\.(c?)js$/, '.$1ts')));
      return Object.hasOwn(packages, name) ? packages[name] : requireFromRoot(name);
    };
    functionOf(path, changedSource(path, changes))(module.exports, requireHere, module);
    return module.exports;
  };
  return (file) => load(join(ROOT, file));
}

/**
 * The text of a file, also if it is made of .lua files, with the changes that concern it; throws when a change does not find its text exactly once.
 * @param {string} path
 * @param {readonly Change[]} changes
 */
export function changedSource(path, changes) {
  let source = path === TEXTS ? textOfScripts((file) => changedSource(file, changes)) : textOf(path);
  for (const { file, find, replace } of changes) {
    if (join(ROOT, file) !== path) continue;
    const count = source.split(find).length - 1;
    if (count !== 1) throw new Error(`Expected this text once in ${file}, found it ${count} times: ${find}`);
    source = source.replace(find, () => replace);
  }
  return source;
}

function functionOf(path, source) {
  const id = `${path}\n${source}`;
  const known = compiled.get(id);
  if (known) return known;
  const { code } = transformSync(source, { ...SWC, filename: path });
  const wrapped = `(function (exports, require, module) {${code}\n})`;
  const made = vm.runInThisContext(wrapped, { filename: path });
  compiled.set(id, made);
  return made;
}
