import process from 'node:process';
import { setImmediate } from 'node:timers/promises';
import { isRefused } from './warnings.mjs';

const CHILD_OPTIONS = `--import=${new URL('child.mjs', import.meta.url)}`;

if (!process.env.NODE_OPTIONS?.includes(CHILD_OPTIONS)) {
  process.env.NODE_OPTIONS = `${process.env.NODE_OPTIONS ?? ''} ${CHILD_OPTIONS}`.trim();
}

/** After these events, what went wrong belongs to the test of the event. */
const ENDS = ['test_fn_success', 'test_fn_failure', 'hook_success', 'hook_failure'];

/** Jest asks for 100 frames of each error, which costs more than the tests. */
const FRAMES = 20;

/**
 * The registries of garbage in tests keep what they watch until a test calls `collectGarbage`. Otherwise a lock whose handle a test
 * has dropped would be released whenever V8 happens to collect, while the test relies on it.
 */
function keepGarbage() {
  if (globalThis.dropKeptGarbage) return;
  const kept = new Map();
  globalThis.FinalizationRegistry = class extends globalThis.FinalizationRegistry {
    register(target, held, token) {
      super.register(target, held, token);
      if (token !== undefined) kept.set(token, target);
    }

    unregister(token) {
      kept.delete(token);
      return super.unregister(token);
    }
  };
  globalThis.dropKeptGarbage = () => kept.clear();
}

/** The errors of all tests in a block. */
const errorsIn = ({ children }) =>
  children.flatMap((child) => (child.type === 'describeBlock' ? errorsIn(child) : child.errors.flat()));

/** A worker that ends by itself while it runs a file counts as killed: after another status, Jest would run the file again. */
const countAsKilled = () => {
  process.exitCode = 137;
};

/**
 * The environment of a test file is the worker itself (see ../jest/runtime.cjs). It fails the test that runs when Node warns, or when
 * a rejection is handled too late: elsewhere it would have ended the process. Jest itself fails tests for rejections that stay
 * unhandled and for uncaught exceptions; those of a file that has ended fail the next one. What a file leaves replaced, it restores.
 */
export default class StrictEnvironment {
  global = globalThis;
  #console = console;
  #exit = Object.getOwnPropertyDescriptor(process, 'exit');
  #found = [];
  #thrown = [];
  #variables = { ...process.env };
  #onWarning = (warning) => {
    if (isRefused(warning)) this.#found.push(warning);
  };
  #onUnhandled = (reason, promise) => this.#unhandled.set(promise, reason);
  #onHandled = (promise) => {
    const text = 'A rejection was unhandled for a while, which ends a process of Node';
    this.#found.push(new Error(text, { cause: this.#unhandled.get(promise) }));
  };
  #unhandled = new WeakMap();

  getVmContext() {
    return null;
  }

  async setup() {
    Error.stackTraceLimit = FRAMES;
    keepGarbage();
    process.on('warning', this.#onWarning);
    process.on('exit', countAsKilled);
  }

  async teardown() {
    process.off('exit', countAsKilled);
    process.off('warning', this.#onWarning);
    process.off('unhandledRejection', this.#onUnhandled);
    process.off('rejectionHandled', this.#onHandled);
    Object.defineProperty(process, 'exit', this.#exit);
    globalThis.console = this.#console;
    jest.useRealTimers();
    jest.restoreAllMocks();
    for (const name of Object.keys(process.env)) if (!(name in this.#variables)) delete process.env[name];
    for (const [name, value] of Object.entries(this.#variables))
      if (process.env[name] !== value) process.env[name] = value;
  }

  async handleTestEvent({ name, test, error }, state) {
    if (name === 'error') {
      this.#thrown.push(error);
    } else if (name === 'setup') {
      // Not earlier: Jest has just replaced all listeners.
      process.on('unhandledRejection', this.#onUnhandled);
      process.on('rejectionHandled', this.#onHandled);
    } else if (name === 'run_finish' || ENDS.includes(name)) {
      // Node reports rejections and warnings at the end of a turn.
      await setImmediate();
      const errors = test?.errors ?? state.unhandledErrors;
      errors.push(...this.#found.splice(0));
      if (name !== 'run_finish') return;
      const known = new Set([...state.unhandledErrors.flat(), ...errorsIn(state.rootDescribeBlock)]);
      errors.push(...this.#thrown.filter((one) => !known.has(one)));
    }
  }
}
