/** Control characters, line breaks of all kinds, and characters that cannot be seen or that look like a space. */
export const UNPRINTABLE = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Default_Ignorable_Code_Point}\u2800]|(?! )\p{Zs}/gu;

/** Spaces at the end of a text, which are also invisible. */
const SPACES_AT_END = / +$/;

const SHORT: Readonly<Record<string, string>> = { '\n': '\\n', '\r': '\\r', '\t': '\\t' };

/**
 * Escapes characters that a log or a terminal would act on, or that are invisible: a key may come from a request, and a line break in
 * it would forge a line of the log. Applied to every log line and to the key in an error text; the fields of errors and events have
 * the key unchanged.
 */
export const printable = (text: string): string =>
  text
    .replace(UNPRINTABLE, (char) => SHORT[char] ?? codeOf(char))
    .replace(SPACES_AT_END, (spaces) => codeOf(' ').repeat(spaces.length));

const HOUR = 3_600_000;
const DAY = 24 * HOUR;

/** A duration in a text: `500 ms`, and from an hour on `2.5 hours` or `30 days`. */
export function durationText(ms: number): string {
  if (ms < HOUR) return `${ms} ms`;
  const [unit, unitMs] = ms % DAY === 0 || ms > 2 * DAY ? ['day', DAY] : ['hour', HOUR];
  const count = Math.round((10 * ms) / unitMs) / 10;
  return `${count} ${unit}${count === 1 ? '' : 's'}`;
}

function codeOf(char: string): string {
  const code = char.codePointAt(0)!.toString(16);
  return code.length > 4 ? `\\u{${code}}` : `\\u${code.padStart(4, '0')}`;
}
