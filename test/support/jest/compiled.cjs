// How files are compiled, and where they are kept: by the source, how it is compiled, and where it finds the libraries of clients.
const { createHash } = require('node:crypto');
const { readFileSync } = require('node:fs');
const path = require('node:path');
const process = require('node:process');

const folder = path.join(__dirname, '../../../node_modules/.cache/nestjs-redis-lock-tests');

const how = [__filename, path.join(__dirname, 'hooks.mjs')].map((file) => readFileSync(file, 'utf8')).join('');
const { version } = require('@swc/core/package.json');

exports.folder = folder;
exports.compiledPath = (source) => {
  const hash = createHash('sha1').update(`${how}:${version}:${process.env.CLIENTS_FROM}:${source}:`);
  return path.join(folder, hash.update(readFileSync(source)).digest('hex'));
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
