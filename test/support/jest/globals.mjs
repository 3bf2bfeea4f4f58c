// What specs import from '@jest/globals'.
import { ModernFakeTimers } from '@jest/fake-timers';
import { ModuleMocker } from 'jest-mock';

const mocker = new ModuleMocker(globalThis);
const timers = new ModernFakeTimers({ config: { rootDir: '', fakeTimers: {} }, global: globalThis });

export const jest = {
  fn: mocker.fn.bind(mocker),
  spyOn: mocker.spyOn.bind(mocker),
  isMockFunction: mocker.isMockFunction.bind(mocker),
  restoreAllMocks: mocker.restoreAllMocks.bind(mocker),
  useFakeTimers: (options) => timers.useFakeTimers(options),
  useRealTimers: () => timers.useRealTimers(),
  advanceTimersByTimeAsync: (ms) => timers.advanceTimersByTimeAsync(ms),
  getTimerCount: () => timers.getTimerCount(),
  setTimeout: (ms) => {
    globalThis[Symbol.for('TEST_TIMEOUT_SYMBOL')] = ms;
  },
};
