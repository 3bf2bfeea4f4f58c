// How Node finds and compiles the TypeScript of the tests, for Jest (see runtime.cjs) and for scripts: Node 20 cannot strip types.
import { existsSync, mkdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import process from 'node:process';
import { fileURLToPath, pathToFileURL } from 'node:url';
import swc from '@swc/core';
import { compiledPath, folder, swcOptions, textOf } from './compiled.cjs';

mkdirSync(folder, { recursive: true });

const root = new URL('../../../', import.meta.url);
const at = (path) => new URL(path, root).href;
const { CLIENTS_FROM, LIBRARY } = process.env;
/** Where scripts/compatibility.mjs installs ioredis and node-redis in other versions. */
const clients = CLIENTS_FROM && pathToFileURL(join(CLIENTS_FROM, 'index.js')).href;

const PACKAGES = {
  // The examples import the package by its name; here they are tested with its sources.
  'nestjs-redis-lock': at('lib/index.ts'),
  'nestjs-redis-lock/store': at('lib/store.ts'),
  'nestjs-redis-lock/testing': at('lib/testing/index.ts'),
};
const SOURCE = /\.([cm]?)ts$/;
const known = new Map();

/** The source of a relative import, which names the compiled file. */
function sourceOf(specifier, parent) {
  const url = new URL(specifier.replace(/\.([cm]?)js$/, '.$1ts'), parent);
  // An app that has only one library of clients.
  if (LIBRARY && LIBRARY !== 'ioredis' && url.pathname.endsWith('/redis/client/optional-peers.cts')) {
    return at(`test/support/clients/only-${LIBRARY}.cts`);
  }
  if (!known.has(url.href)) known.set(url.href, existsSync(url));
  return known.get(url.href) ? url.href : undefined;
}

export async function resolve(specifier, context, next) {
  const { parentURL } = context;
  if (PACKAGES[specifier]) return { url: PACKAGES[specifier], shortCircuit: true };
  if (specifier.startsWith('.') && SOURCE.test(new URL(parentURL).pathname)) {
    const url = sourceOf(specifier, parentURL);
    if (url) return { url, shortCircuit: true };
  }
  if (clients && /^(ioredis|redis)$/.test(specifier)) return next(specifier, { ...context, parentURL: clients });
  return next(specifier, context);
}

/** A .cts file becomes a module that can `require`. */
const from = clients ? JSON.stringify(clients) : 'import.meta.url';
const CAN_REQUIRE = `import { createRequire } from 'node:module'; const require = createRequire(${from}); `;

export async function load(url, context, next) {
  const { pathname } = new URL(url);
  const [, kind] = SOURCE.exec(pathname) ?? [];
  if (kind === undefined || pathname.includes('/node_modules/')) return next(url, context);
  const path = fileURLToPath(new URL(pathname, url));
  const file = compiledPath(path);
  if (!existsSync(file)) compile(path, file, kind);
  return { format: 'module', source: readFileSync(file, 'utf8'), shortCircuit: true };
}

function compile(path, file, kind) {
  const source = textOf(path);
  const { code, map } = swc.transformSync(kind === 'c' ? CAN_REQUIRE + source : source, {
    ...swcOptions('es6'),
    filename: path,
    sourceMaps: true,
    configFile: false,
    swcrc: false,
  });
  // Another worker may write the same file.
  for (const [name, text] of [
    [`${file}.map`, map],
    [file, code],
  ]) {
    writeFileSync(`${name}.${process.pid}`, text);
    renameSync(`${name}.${process.pid}`, name);
  }
}
