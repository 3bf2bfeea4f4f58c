import * as errors from '../../../lib/core/lock.errors.js';
import { durationText, printable } from '../../../lib/core/printable.js';
import { storedKey } from '../../../lib/core/key.js';
import { startLocker } from '../../support/core/core-parts.js';

/** A line that looks like another one, a terminal colour, and a character that reverses the order of a line. */
const KEY = 'user:7\n[Nest] ERROR\r\u001B[31m\u2028\u202Eforged\u0085';
const SHOWN = 'user:7\\n[Nest] ERROR\\r\\u001b[31m\\u2028\\u202eforged\\u0085';
const UNPRINTABLE = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/u;

describe('printable text', () => {
  it.each([
    [KEY, SHOWN],
    ['a\tb\0c\u007Fd', 'a\\tb\\u0000c\\u007fd'],
    ['\u200E\u2066\u2069\u061C\uFEFF\u00AD\u2029', '\\u200e\\u2066\\u2069\\u061c\\ufeff\\u00ad\\u2029'],
    ['\u{E0041}', '\\u{e0041}'],
    ['a\u00A0b\u2800c\u3000d\u034Fe\u3164f\uFE0F', 'a\\u00a0b\\u2800c\\u3000d\\u034fe\\u3164f\\ufe0f'],
    [' a b  ', ' a b\\u0020\\u0020'],
    ['Zoë 😀 / \\n "é" <0>: %0A', 'Zoë 😀 / \\n "é" <0>: %0A'],
    ['', ''],
  ])('%j is shown as %j', (text, shown) => {
    expect(printable(text)).toBe(shown);
  });
});

describe('a duration in a text', () => {
  it.each([
    [0, '0 ms'],
    [3_599_999, '3599999 ms'],
    [3_600_000, '1 hour'],
    [5_400_000, '1.5 hours'],
    [86_400_000, '1 day'],
    [36 * 3_600_000, '36 hours'],
    [2_592_000_000, '30 days'],
  ])('of %d ms is %s', (ms, text) => {
    expect(durationText(ms)).toBe(text);
  });
});

describe('the text of an error', () => {
  const DETAILS = { key: KEY, mode: 'write', waitedMs: 5, reason: 'expired' } as const;
  const types = Object.entries(errors).filter(([name]) => name.startsWith('Lock') && name.endsWith('Error'));

  it.each(types)('%s shows its key without control characters, and has the original as a property', (_name, type) => {
    const error = new (type as new (text: string, details: typeof DETAILS) => errors.LockError)(
      `The lock "${KEY}" is held.`,
      DETAILS,
    );
    expect(error.message).toBe(`The lock "${SHOWN}" is held.`);
    expect(error.stack!.split('\n')[0]).toContain(SHOWN);
    expect(error.key).toBe(KEY);
  });

  it('shows its other parts unchanged, since developers wrote them', () => {
    expect(new errors.LockKeyError("'<0\n>' is not a placeholder", { key: 'order' }).message).toBe(
      "'<0\n>' is not a placeholder",
    );
  });

  it('is bounded for an ill-formed key of any length', () => {
    const key = `\uD800${'a'.repeat(10_000)}`;
    expect(() => storedKey(key)).toThrow(errors.LockKeyError);
    expect(() => storedKey(key)).toThrow(/^The lock key "\\ud800a{39}…" contains half of a surrogate pair/u);
  });
});

describe('the log of locks whose key has control characters', () => {
  it('has one line each for a failed renewal, a loss, a failed release and a lock held at the end', async () => {
    const { clock, store, reporter, locker, enter } = startLocker();
    const kept = await enter(KEY);
    store.onRenew = (requests) => requests.map(() => ({ outcome: 'unknown', cause: new Error(`down: ${KEY}`) }));
    store.onRelease = () => {
      throw new errors.LockStoreError('down', { retryable: false });
    };
    await clock.advance(1_000);
    await (await enter(KEY)).release();
    expect(kept.held).toBe(true);
    const closing = locker.close(0);
    await clock.advance(10_000);
    await closing;
    const texts = ['Renewing the lock', 'was lost', 'could not be released', 'was still held'];
    for (const text of texts) expect(reporter.lines.filter((line) => line.includes(text))).not.toEqual([]);
    expect(reporter.lines.filter((line) => UNPRINTABLE.test(line))).toEqual([]);
    expect(reporter.lines.filter((line) => texts.some((text) => line.includes(text) && !line.includes(SHOWN)))).toEqual(
      [],
    );
  });
});
