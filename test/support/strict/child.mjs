// Loaded into every process that a test starts: a warning ends it with an error. An unhandled rejection does so by itself.
import process from 'node:process';
import { isRefused } from './warnings.mjs';

process.on('warning', (warning) => {
  if (isRefused(warning)) throw warning;
});
