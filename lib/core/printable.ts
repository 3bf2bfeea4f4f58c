/** Control and format characters, and line breaks of all kinds. */
const UNPRINTABLE = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu;

const SHORT: Readonly<Record<string, string>> = { '\n': '\\n', '\r': '\\r', '\t': '\\t' };

/**
 * Escapes what a log or a terminal would carry out, in place of showing it: a key may come from a request, and a line
 * break in it would begin a line that nobody wrote. The key in the text of an error and every line of the log go
 * through it; the fields of errors and events have the key as it is.
 */
export const printable = (text: string): string => text.replace(UNPRINTABLE, (char) => SHORT[char] ?? codeOf(char));

function codeOf(char: string): string {
  const code = char.codePointAt(0)!.toString(16);
  return code.length > 4 ? `\\u{${code}}` : `\\u${code.padStart(4, '0')}`;
}
