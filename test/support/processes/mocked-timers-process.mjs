// The built package as `require` loads it, while a fake replaces a timer in the module of Node, as test runners do. Without an answer, the
// process ends.
import { createRequire } from 'node:module';
import process from 'node:process';
import timers from 'node:timers';

const require = createRequire(import.meta.url);
const { ManualClock, MemoryLockServer, MemoryLockStore } = require('../../../dist/cjs/testing/index.js');

timers.setImmediate = () => undefined;
const { mode } = await new MemoryLockStore(new MemoryLockServer()).inspect('k');
await new ManualClock().advance(1);
process.send({ mode });
