// Lets Node import the TypeScript files of `test`: `node --import ./scripts/typescript.mjs …`, or an import before the others.
// Node 20 cannot strip types itself, and swc is here for Jest anyway. It checks no types; `npm run typecheck` does.
import { existsSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { register } from 'node:module';
import { fileURLToPath } from 'node:url';
import { isMainThread } from 'node:worker_threads';
import { transform } from '@swc/core';
import { swcOptions } from './swc.mjs';

const SWC = { ...swcOptions('es6'), sourceMaps: 'inline' };

// Node runs the hooks, which are in the same file, in a thread of their own.
if (isMainThread) register(import.meta.url);

/** TypeScript files import each other by the names that the compiled files would have. */
export async function resolve(specifier, context, next) {
  const isOurs = specifier.startsWith('.') && specifier.endsWith('.js') && context.parentURL?.endsWith('.ts');
  const source = isOurs && new URL(specifier.replace(/\.js$/, '.ts'), context.parentURL);
  return next(source && existsSync(source) ? source.href : specifier, context);
}

export async function load(url, context, next) {
  if (!url.startsWith('file:') || !url.endsWith('.ts')) return next(url, context);
  const filename = fileURLToPath(url);
  const { code } = await transform(await readFile(filename, 'utf8'), { ...SWC, filename });
  return { format: 'module', source: code, shortCircuit: true };
}
