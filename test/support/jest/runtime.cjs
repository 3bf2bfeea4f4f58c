// The runtime of Jest without its VM contexts: test files and what they import are modules of the worker itself. A module that several
// files import is compiled once for all of them. Jest's runner, its matchers and its time limits are as they were.
const { register } = require('node:module');
const { pathToFileURL } = require('node:url');
const { ModernFakeTimers } = require('@jest/fake-timers');
const { ModuleMocker } = require('jest-mock');
const { compiledPath } = require('./compiled.cjs');

register('./hooks.mjs', pathToFileURL(__filename));

const SOURCE = /\.[cm]?ts$/;

/** Where the source map of a file is. Stacks name files by URL. */
class SourceMaps extends Map {
  get(name) {
    const path = name.startsWith('file:') ? new URL(name).pathname : name;
    return SOURCE.test(path) ? `${compiledPath(path)}.map` : undefined;
  }
}

const HANDLERS = Symbol.for('EVENT_HANDLERS');
const TIME_LIMIT = Symbol.for('TEST_TIMEOUT_SYMBOL');
const stateSymbols = () =>
  Object.getOwnPropertySymbols(globalThis).filter(({ description }) => description === 'JEST_STATE_SYMBOL');

const mocker = new ModuleMocker(globalThis);
const timers = new ModernFakeTimers({ config: { rootDir: '', fakeTimers: {} }, global: globalThis });

/** What the tests use of it; without VM contexts, it is the same for all files of a worker. */
globalThis.jest = {
  fn: mocker.fn.bind(mocker),
  spyOn: mocker.spyOn.bind(mocker),
  isMockFunction: mocker.isMockFunction.bind(mocker),
  restoreAllMocks: mocker.restoreAllMocks.bind(mocker),
  useFakeTimers: (options) => timers.useFakeTimers(options),
  useRealTimers: () => timers.useRealTimers(),
  advanceTimersByTimeAsync: (ms) => timers.advanceTimersByTimeAsync(ms),
  getTimerCount: () => timers.getTimerCount(),
  setTimeout: (ms) => {
    globalThis[TIME_LIMIT] = ms;
  },
};

let loads = 0;
/** jest-circus, and the number of handlers that it adds itself. */
let circus;

module.exports = class NativeRuntime {
  /**
   * jest-circus keeps the tests of a file, and the handlers of their events, for as long as the process lives. Its functions stay the
   * same here, because shared modules keep them; each file gets the state of a copy that has just been loaded.
   */
  requireInternalModule(path) {
    delete require.cache[path];
    const loaded = require(path);
    const [symbol, fresh] = stateSymbols();
    if (fresh) globalThis[symbol] = globalThis[fresh];
    if (fresh) delete globalThis[fresh];
    circus ??= { loaded, handlers: globalThis[HANDLERS].length };
    globalThis[HANDLERS].length = circus.handlers;
    delete globalThis[TIME_LIMIT];
    return circus.loaded;
  }

  requireModule(path) {
    return require(path);
  }

  unstable_shouldLoadAsEsm() {
    return true;
  }

  /** Each run of a test file is a separate module, and the modules that it imports are shared. */
  unstable_importModule(path) {
    loads += 1;
    return import(`${pathToFileURL(path).href}?run=${loads}`);
  }

  setGlobalsForRuntime() {}

  getSourceMaps() {
    return new SourceMaps();
  }

  getAllCoverageInfoCopy() {
    return undefined;
  }

  enterTestCode() {}
  leaveTestCode() {}
  teardown() {}
};
