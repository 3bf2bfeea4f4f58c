import { LockConfigurationError } from '../../../lib/core/lock.errors.js';
import { checkLockOptions, LOCK_OPTION_NAMES, resolveLockOptions } from '../../../lib/core/lock.options.js';
import { checkDuration } from '../../../lib/core/option-checks.js';

const DEFAULTS = { leaseMs: 30_000, waitMs: 10_000, maxHoldMs: Infinity, awaitRelease: true, isQuorum: false };
const NAMES = [
  'mode', 'leaseMs', 'waitMs', 'maxWaiters', 'maxHoldMs', 'holdAtLeastMs', 'renew', 'permits', 'take', 'perInstance', 'fair', 'owner',
  'note', 'signal', 'reentrant', 'awaitRelease',
]; // prettier-ignore
const DURATION = 'a whole number of milliseconds';

describe('the options of a lock', () => {
  it('are listed completely', () => {
    expect(LOCK_OPTION_NAMES).toEqual(NAMES);
  });

  it.each([
    ['nothing', {}],
    ['what is undefined', { mode: undefined, leaseMs: undefined, signal: undefined }],
    ['the shortest durations', { leaseMs: 50, waitMs: 0, maxHoldMs: 1, holdAtLeastMs: 0 }],
    ['to wait and hold for ever', { waitMs: Infinity, maxHoldMs: Infinity }],
    ['a lease of thirty days', { leaseMs: 30 * 24 * 3_600_000 }],
    ['a semaphore of one or of very many', { mode: 'read', permits: 1, fair: false }],
    ['a few of its permits for each process', { mode: 'read', permits: 20, perInstance: 3 }],
    ['not to re-enter', { reentrant: false }],
    ['not to wait for the release', { awaitRelease: false }],
    ['the longest owner', { owner: 'o'.repeat(128) }],
    ['the longest note, or none', { note: 'é'.repeat(128) }],
    ['an empty note', { note: '' }],
    ['a signal and a mode', { signal: new AbortController().signal, mode: 'read', renew: false }],
  ])('may be %s', (_what, options) => {
    expect(() => checkLockOptions(options)).not.toThrow();
  });

  it.each([
    ['mode', 'exclusive', `'write' or 'read', got \`exclusive\` (string)`],
    ['mode', null, `'write' or 'read', got \`null\` (object)`],
    ['leaseMs', 49, `${DURATION} from 50 to 2592000000, got \`49\` (number)`],
    ['leaseMs', Infinity, `${DURATION} from 50 to 2592000000, got \`Infinity\` (number)`],
    ['leaseMs', NaN, `${DURATION} from 50 to 2592000000, got \`NaN\` (number)`],
    ['leaseMs', 2_592_000_001, `${DURATION} from 50 to 2592000000, got \`2592000001\` (number)`],
    ['leaseMs', '100', `${DURATION} from 50 to 2592000000, got \`100\` (string)`],
    ['waitMs', -1, `${DURATION} from 0 up, or Infinity, got \`-1\` (number)`],
    ['waitMs', 0.5, `${DURATION} from 0 up, or Infinity, got \`0.5\` (number)`],
    ['waitMs', -Infinity, `${DURATION} from 0 up, or Infinity, got \`-Infinity\` (number)`],
    ['maxHoldMs', 0, `${DURATION} from 1 up, or Infinity, got \`0\` (number)`],
    ['holdAtLeastMs', Infinity, `${DURATION} from 0 to 2592000000, got \`Infinity\` (number)`],
    ['holdAtLeastMs', 5n, `${DURATION} from 0 to 2592000000, got \`5\` (bigint)`],
    ['renew', 'no', 'true or false, got `no` (string)'],
    ['maxWaiters', 0, 'a whole number from 1 to 1000, got `0` (number)'],
    ['maxWaiters', 1_001, 'a whole number from 1 to 1000, got `1001` (number)'],
    ['permits', 0, 'a whole number from 1 to 100000, got `0` (number)'],
    ['permits', 100_001, 'a whole number from 1 to 100000, got `100001` (number)'],
    ['permits', 1.5, 'a whole number from 1 to 100000, got `1.5` (number)'],
    ['take', 0, 'a whole number from 1 to 100000, got `0` (number)'],
    ['take', 2, "left out, or used with `mode: 'read'`, got `2` (number)"],
    ['permits', 2, "left out, or used with `mode: 'read'`, got `2` (number)"],
    ['perInstance', 0, 'a whole number from 1 to 100000, got `0` (number)'],
    ['perInstance', 3, 'left out, or used with `permits`, got `3` (number)'],
    ['fair', 0, "true, false or 'strict', got `0` (number)"],
    ['reentrant', 'no', 'true or false, got `no` (string)'],
    ['awaitRelease', null, 'true or false, got `null` (object)'],
    ['owner', '', 'a well-formed string of 1 to 128 characters, got "" (string)'],
    ['owner', '\ud800', 'a well-formed string of 1 to 128 characters, got `\ud800` (string)'],
    ['owner', 7, 'a well-formed string of 1 to 128 characters, got `7` (number)'],
    ['signal', {}, 'an AbortSignal, got a value of type object'],
    ['signal', null, 'an AbortSignal, got `null` (object)'],
    ['signal', { addEventListener: () => undefined }, 'an AbortSignal, got a value of type object'],
  ])('refuse %s: %p with the option, the value and what is expected', (name, value, expected) => {
    const check = () => checkLockOptions({ [name]: value });
    expect(check).toThrow(LockConfigurationError);
    expect(check).toThrow(`Expected \`${name}\` to be ${expected}.`);
  });

  it('refuse an unknown name, and list the known ones', () => {
    expect(() => checkLockOptions({ timeout: 5 })).toThrow(
      `Unknown lock option \`timeout\`; expected one of ${NAMES.join(', ')}.`,
    );
    expect(() => checkLockOptions({ toString: 1 })).toThrow('Unknown lock option `toString`');
    expect(() => checkLockOptions({ ifBusy: 'skip' }, ['ifBusy'])).not.toThrow();
  });

  it('are refused when they are inherited, hidden, made by a proxy or read by a getter, too', () => {
    class Options {
      get leaseMs(): number {
        return 5;
      }
    }
    const hidden = Object.defineProperty({}, 'leaseMs', { value: 5 });
    const proxy = new Proxy({}, { get: (_, name) => (name === 'leaseMs' ? 5 : undefined) });
    for (const options of [new Options(), Object.create({ leaseMs: 5 }) as object, hidden, proxy]) {
      expect(() => checkLockOptions(options)).toThrow('Expected `leaseMs` to be');
    }
  });

  it('are read once: the value that was checked is the one that counts', () => {
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

describe('a duration', () => {
  it('must be a whole number within its range', () => {
    for (const value of [1, 10]) checkDuration(value, 'drainMs', { min: 1, max: 10 });
    for (const value of [0, 11, 1.5, Infinity, undefined, null, '5']) {
      expect(() => checkDuration(value, 'drainMs', { min: 1, max: 10 })).toThrow('Expected `drainMs` to be');
    }
  });
});
