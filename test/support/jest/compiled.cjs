// How files are compiled, and where they are kept: by the path of the source, the time of its last change, and where it
// finds the libraries of clients.
const { createHash } = require('node:crypto');
const { statSync } = require('node:fs');
const path = require('node:path');
const process = require('node:process');

const folder = path.join(__dirname, '../../../node_modules/.cache/nestjs-redis-lock-tests');

exports.folder = folder;
exports.compiledPath = (source) => {
  const { mtimeMs, size } = statSync(source);
  return path.join(
    folder,
    createHash('sha1').update(`${source}:${mtimeMs}:${size}:${process.env.CLIENTS_FROM}`).digest('hex'),
  );
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
