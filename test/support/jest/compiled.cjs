// Where compiled files are kept: by the path of the source, and the time of its last change.
const { createHash } = require('node:crypto');
const { statSync } = require('node:fs');
const path = require('node:path');

const folder = path.join(__dirname, '../../../node_modules/.cache/nestjs-redis-lock-tests');

exports.folder = folder;
exports.compiledPath = (source) => {
  const { mtimeMs, size } = statSync(source);
  return path.join(folder, createHash('sha1').update(`${source}:${mtimeMs}:${size}`).digest('hex'));
};
