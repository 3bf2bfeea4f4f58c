// The entries of the package, from its `exports`.
import { readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

export const root = dirname(dirname(fileURLToPath(import.meta.url)));
export const manifest = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'));

/** Each entry: what users import, and its file in `lib`, without the extension. */
const ENTRIES = Object.entries(manifest.exports)
  .filter(([, target]) => typeof target === 'object')
  .map(([path, target]) => ({
    name: `${manifest.name}${path.slice(1)}`,
    source: target.import.default.replace('./dist/esm/', '').replace(/\.js$/, ''),
  }));

/** The files of the entries, for typedoc. */
export const FILES = ENTRIES.map(({ source }) => join(root, 'lib', `${source}.ts`));

/** What users import, by the name that typedoc makes of the file. */
export const NAMES = new Map(ENTRIES.map(({ name, source }) => [source.replace(/(.)\/index$/, '$1'), name]));
