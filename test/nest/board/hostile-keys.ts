/** Keys that would do harm on a page that took them for markup, for code or for plain text, with what they are. */
export const HOSTILE_KEYS: readonly (readonly [string, string])[] = [
  ['an image with a handler', '<img src=x onerror="alert(1)">'],
  ['the end of a script', '</script><script>alert(1)</script>'],
  ['the end of an attribute', `"'><svg/onload=alert(1)>`],
  ['an address that runs code', 'javascript:alert(1)'],
  ['a text that turns its direction', 'order:\u202Egnp.exe\u2066'],
  ['a text that looks like another one', 'order:7\u00A0\u2800\uFE0F '],
  ['an additional event', 'data: {}\n\nevent: state\ndata: {"locks":[]}'],
  ['a path and a query', '%2e%2e/../#/lock/&key=other?view=locks'],
  ['a very long text', `long:${'x'.repeat(1_000)}`],
];
