import { LockConfigurationError } from '../../../lib/core/lock.errors.js';
import { checkLockOptions, LOCK_OPTIONS, resolveLockOptions } from '../../../lib/core/lock.options.js';

const DEFAULTS = { leaseMs: 30_000, waitMs: 10_000, maxHoldMs: Infinity, awaitRelease: true, isQuorum: false };
const NAMES = [
  'mode', 'leaseMs', 'waitMs', 'maxWaiters', 'maxHoldMs', 'holdAtLeastMs', 'renew', 'permits', 'take', 'perInstance', 'fair', 'owner',
  'note', 'signal', 'reentrant', 'awaitRelease',
]; // prettier-ignore
const DURATION = 'a whole number of milliseconds';

describe('the options of a lock', () => {
  it('are listed completely', () => {
    expect(Object.keys(LOCK_OPTIONS)).toEqual(NAMES);
  });

  it.each([
    ['mode', 'exclusive', `'write' or 'read', got \`exclusive\` (string)`],
    ['leaseMs', 49, `${DURATION} from 50 to 2592000000 (30 days), got \`49\` (number)`],
    ['leaseMs', NaN, `${DURATION} from 50 to 2592000000 (30 days), got \`NaN\` (number)`],
    ['waitMs', -1, `${DURATION} from 0 up, or Infinity, got \`-1\` (number)`],
    ['maxHoldMs', 0, `${DURATION} from 1 up, or Infinity, got \`0\` (number)`],
    ['holdAtLeastMs', 5n, `${DURATION} from 0 to 2592000000 (30 days), got \`5\` (bigint)`],
    ['renew', 'no', 'true or false, got `no` (string)'],
    ['maxWaiters', 0, 'a whole number from 1 to 1000, got `0` (number)'],
    ['permits', 0, 'a whole number from 1 to 100000, got `0` (number)'],
    ['take', 0, 'a whole number from 1 to 100000, got `0` (number)'],
    ['take', 2, "left out, or used with `mode: 'read'`, got `2` (number)"],
    ['permits', 2, "left out, or used with `mode: 'read'`, got `2` (number)"],
    ['perInstance', 0, 'a whole number from 1 to 100000, got `0` (number)'],
    ['perInstance', 3, 'left out, or used with `permits`, got `3` (number)'],
    ['fair', 0, "true, false or 'strict', got `0` (number)"],
    ['reentrant', 'no', 'true or false, got `no` (string)'],
    ['owner', '', 'a well-formed string of 1 to 128 characters, got "" (string)'],
    ['signal', {}, 'an AbortSignal, got a value of type object'],
  ])('refuse %s: %p with the option, the value and what is expected', (name, value, expected) => {
    const check = () => checkLockOptions({ [name]: value });
    expect(check).toThrow(LockConfigurationError);
    expect(check).toThrow(`Expected \`${name}\` to be ${expected}.`);
  });

  it('refuse an unknown name, and list the known ones', () => {
    expect(() => checkLockOptions({ timeout: 5 } as object)).toThrow(
      `Unknown lock option \`timeout\`; expected one of ${NAMES.join(', ')}.`,
    );
    expect(() => checkLockOptions({ toString: 1 } as object)).toThrow('Unknown lock option `toString`');
  });

  it('are read once: the checked value is the one that counts', () => {
    let reads = 0;
    const options = {
      get leaseMs(): number {
        return (reads += 1) > 1 ? NaN : 100;
      },
    };
    expect(resolveLockOptions(checkLockOptions(options), DEFAULTS).leaseMs).toBe(100);
    expect(reads).toBe(1);
  });

  it('refuse an option that throws when it is read', () => {
    const options = {
      get waitMs(): number {
        throw new RangeError('not now');
      },
    };
    const check = () => checkLockOptions(options);
    expect(check).toThrow(LockConfigurationError);
    expect(check).toThrow('The lock option `waitMs` cannot be read: not now. Pass a plain object.');
  });

  it('cut a long value in the error, and escape its line breaks', () => {
    const owner = `a\n${'x'.repeat(1_000)}`;
    expect(() => checkLockOptions({ owner })).toThrow(`got \`a\\n${'x'.repeat(98)}…\` (string).`);
  });

  it('are filled from the defaults', () => {
    const open = {
      maxWaiters: 0,
      permits: 0,
      take: 1,
      perInstance: 0,
      fair: true,
      owner: undefined,
      note: '',
      signal: undefined,
      reentrant: true,
    };
    const { isQuorum: _isQuorum, ...ofModule } = DEFAULTS;
    const filled = { mode: 'write', ...ofModule, holdAtLeastMs: 0, renew: true, ...open };
    expect(resolveLockOptions({}, DEFAULTS)).toEqual(filled);
    expect(resolveLockOptions({ waitMs: 0, renew: false, maxHoldMs: 5, mode: 'read' }, DEFAULTS)).toEqual({
      ...filled,
      waitMs: 0,
      renew: false,
      maxHoldMs: 5,
      mode: 'read',
    });
    const semaphore = { mode: 'read', permits: 3, take: 2, perInstance: 2, fair: false, owner: 'nightly' } as const;
    expect(resolveLockOptions(semaphore, DEFAULTS)).toEqual({ ...filled, ...semaphore });
    const noWait = { ...DEFAULTS, awaitRelease: false };
    expect(resolveLockOptions({}, noWait).awaitRelease).toBe(false);
    expect(resolveLockOptions({ awaitRelease: true }, noWait).awaitRelease).toBe(true);
  });
});
