import * as fc from 'fast-check';
import { Raw, type Reply } from './resp.js';

/** What a server does instead of its reply. */
export type Bad =
  | { readonly kind: 'reply'; readonly reply: Reply }
  /** The right reply with other elements. */
  | { readonly kind: 'changed'; readonly change: Change; readonly at: number; readonly by: Reply }
  /** One more reply behind the right one: all later ones answer other commands. */
  | { readonly kind: 'extra' }
  | { readonly kind: 'silence' }
  | { readonly kind: 'cut' };

type Change = 'replace' | 'insert' | 'remove' | 'truncate';

const nested = (depth: number): Reply => Array.from({ length: depth }).reduce<Reply>((inner) => [inner], 'x');

const ERRORS = [
  'ERR odd', 'WRONGTYPE odd', 'NOSCRIPT No matching script', 'READONLY odd', 'LOADING odd', 'OOM odd', 'NOAUTH odd', 'NOPERM odd',
  'MOVED 1 127.0.0.1:1', 'MOVED odd', 'ASK 1 127.0.0.1:1', 'BUSY odd', 'MASTERDOWN odd', 'CLUSTERDOWN odd', 'TRYAGAIN odd',
  'NOREPLICAS odd', 'MISCONF odd', 'EXECABORT odd', 'UNKILLABLE odd', '', ' ', 'x'.repeat(10_000),
]; // prettier-ignore

/** Types of RESP3, and what is no protocol at all. */
const RAW = [
  '+OK\r\n', '+\r\n', '*-1\r\n', '_\r\n', '#t\r\n', '#x\r\n', ',nan\r\n', ',1.5\r\n', ',inf\r\n', '(123456789012345678901234567890\r\n',
  '=7\r\ntxt:abc\r\n', '!7\r\nERR odd\r\n', '%1\r\n$1\r\na\r\n:1\r\n', '~1\r\n:1\r\n', '>2\r\n$3\r\nodd\r\n$1\r\na\r\n',
  '*2\r\n-ERR odd\r\n:1\r\n', 'garbage\r\n', '\0\0\0\0', '$-5\r\n', '$5\r\nab', '*3\r\n$1\r\na\r\n', '*99999999999\r\n', '$x\r\n', ':x\r\n',
  'HTTP/1.1 400 Bad Request\r\n\r\n', '\r\n', '@@@@\r\n',
]; // prettier-ignore

const HUGE = [nested(500), Array.from({ length: 5_000 }, () => 'x'), 'x'.repeat(1_000_000)];

const ELEMENTS = [
  '', 'NaN', 'Infinity', '-1', '0', '-0', '1', '1.5', '1e300', '0x10', ' 5', '5 ', '9007199254740993', '9'.repeat(400), 'granted', 'renewed',
  'busy', 'refused', 'released', 'late', 'other.attempt', null, 0, -1, 7, [], ['x'], nested(50), 'x'.repeat(10_000), 'true', '\0', '%', '{}',
] as const; // prettier-ignore

const leaf: fc.Arbitrary<Reply> = fc.oneof(
  fc.constantFrom<Reply>(...ELEMENTS),
  fc.integer(),
  fc.string({ maxLength: 20 }),
  fc.maxSafeInteger().map(String),
);

const anyReply: fc.Arbitrary<Reply> = fc.oneof(
  leaf,
  fc.constantFrom(...ERRORS).map((text) => new Error(text)),
  fc.constantFrom(...RAW).map((text) => new Raw(text)),
  { weight: 2, arbitrary: fc.array(leaf, { maxLength: 8 }) },
  fc.array(fc.array(leaf, { maxLength: 3 }), { maxLength: 3 }),
);

const huge: fc.Arbitrary<Reply> = fc.constantFrom<Reply>(...HUGE);

const changed: fc.Arbitrary<Bad> = fc.record({
  kind: fc.constant('changed' as const),
  change: fc.constantFrom<Change>('replace', 'replace', 'replace', 'insert', 'remove', 'truncate'),
  at: fc.nat({ max: 9 }),
  by: leaf,
});

export const bad: fc.Arbitrary<Bad> = fc.oneof(
  { weight: 12, arbitrary: changed },
  { weight: 12, arbitrary: anyReply.map((reply) => ({ kind: 'reply' as const, reply })) },
  { weight: 1, arbitrary: huge.map((reply) => ({ kind: 'reply' as const, reply })) },
  { weight: 1, arbitrary: fc.constantFrom<Bad>({ kind: 'extra' }, { kind: 'silence' }, { kind: 'cut' }) },
);

/** The elements of the right reply after a change. */
export function changeReply(right: Reply, { change, at, by }: Bad & { readonly kind: 'changed' }): Reply {
  if (!Array.isArray(right)) return by;
  const parts = [...(right as readonly Reply[])];
  const index = at % (parts.length + 1);
  if (change === 'truncate') return parts.slice(0, index);
  if (change === 'insert') parts.splice(index, 0, by);
  else if (change === 'remove') parts.splice(index, 1);
  else parts[Math.min(index, parts.length - 1)] = by;
  return parts;
}
