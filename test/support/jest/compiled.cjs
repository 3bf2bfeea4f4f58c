// How files are compiled, and where they are kept: by the source, how it is compiled, and where it finds the libraries of clients.
const { createHash } = require('node:crypto');
const { existsSync, readFileSync } = require('node:fs');
const path = require('node:path');
const process = require('node:process');

const root = path.join(__dirname, '../../..');
const folder = path.join(root, 'node_modules/.cache/nestjs-redis-lock-tests');
const { MUTANTS } = process.env;

const how = [__filename, path.join(__dirname, 'hooks.mjs')].map((file) => readFileSync(file, 'utf8')).join('');
const { version } = require('@swc/core/package.json');

exports.folder = folder;
/** The text of a source, or of its copy in the folder MUTANTS (scripts/mutants.mjs). */
const textOf = (source) => {
  const copy = MUTANTS && path.join(MUTANTS, path.relative(root, source));
  return readFileSync(copy && existsSync(copy) ? copy : source, 'utf8');
};
exports.textOf = textOf;
exports.compiledPath = (source) => {
  const hash = createHash('sha1').update(`${how}:${version}:${process.env.CLIENTS_FROM}:${source}:`);
  return path.join(folder, hash.update(textOf(source)).digest('hex'));
};

/**
 * The settings of tsconfig.json for swc, which checks no types.
 * @param {'es6' | 'commonjs'} type the kind of modules to compile to
 * @returns {import('@swc/core').Options}
 */
exports.swcOptions = (type) => ({
  jsc: {
    target: 'es2022',
    parser: { syntax: 'typescript', decorators: true },
    transform: { legacyDecorator: true, decoratorMetadata: true, useDefineForClassFields: true },
    // Messages and logs name classes.
    keepClassNames: true,
  },
  module: { type },
});
