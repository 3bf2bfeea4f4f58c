// Lets Node import the TypeScript files of `test`: `node --import ./scripts/typescript.mjs …`, or an import before the others.
// Node 20 cannot strip types itself, and swc is here for Jest anyway. It checks no types; `npm run typecheck` does.
import { existsSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { register } from 'node:module';
import { fileURLToPath } from 'node:url';
import { isMainThread } from 'node:worker_threads';
import { transform } from '@swc/core';
import { swcOptions } from './swc.mjs';

/** What the files are compiled to. */
const KINDS = { '.ts': { type: 'es6', format: 'module' }, '.cts': { type: 'commonjs', format: 'commonjs' } };

// Node runs the hooks, which are in the same file, in a thread of their own.
if (isMainThread) register(import.meta.url);

/** TypeScript files import each other by the names that the compiled files would have. */
export async function resolve(specifier, context, next) {
  const isOurs = /^\..*\.c?js$/.test(specifier) && context.parentURL?.endsWith('.ts');
  const source = isOurs && new URL(specifier.replace(/js$/, 'ts'), context.parentURL);
  return next(source && existsSync(source) ? source.href : specifier, context);
}

export async function load(url, context, next) {
  const kind = url.startsWith('file:') ? KINDS[/\.c?ts$/.exec(url)?.[0]] : undefined;
  if (!kind) return next(url, context);
  const filename = fileURLToPath(url);
  const swc = swcOptions(kind.type);
  // Node finds the names that a CommonJS module exports by this annotation.
  const module = kind.type === 'commonjs' ? { ...swc.module, exportInteropAnnotation: true } : swc.module;
  const options = { ...swc, module, sourceMaps: 'inline', filename };
  const { code } = await transform(await readFile(filename, 'utf8'), options);
  return { format: kind.format, source: code, shortCircuit: true };
}
