/** The warnings of Node that no test has to answer for, each with its reason. */
const ALLOWED = [
  // Jest runs ES modules this way.
  { name: 'ExperimentalWarning', message: /^VM Modules is/ },
];

/** Whether this warning must fail a test. */
export const isRefused = (warning) =>
  !ALLOWED.some(({ name, message }) => warning.name === name && message.test(warning.message));
