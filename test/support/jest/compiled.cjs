// Where compiled files are kept: by the path of the source, and the time of its last change.
const { createHash } = require('node:crypto');
const { statSync } = require('node:fs');
const { join } = require('node:path');

const folder = join(__dirname, '../../../node_modules/.cache/nestjs-redis-lock-tests');

exports.folder = folder;
exports.compiledPath = (path) => {
  const { mtimeMs, size } = statSync(path);
  return join(folder, createHash('sha1').update(`${path}:${mtimeMs}:${size}`).digest('hex'));
};
