/** The warnings of Node that no test has to answer for, each with its reason. */
const ALLOWED = [
  // Jest runs ES modules this way.
  { name: 'ExperimentalWarning', message: /^VM Modules is/ },
  // The runtime of the tests calls it: Node 20 does not have its replacement.
  { name: 'DeprecationWarning', message: /^`module\.register\(\)` is deprecated/ },
];

/** Whether this warning must fail a test. */
export const isRefused = (warning) =>
  !ALLOWED.some(({ name, message }) => warning.name === name && message.test(warning.message));
