import * as fc from 'fast-check';
import { LockError } from '../../lib/index.js';
import * as replies from '../../lib/redis/codec/replies.js';
import { fuzz, part, search } from './support/area.js';
import { leaseIn } from './support/scene.js';

const ATTEMPT = 'client.1';

const word = fc.oneof(
  fc.constantFrom(
    'granted',
    'busy',
    'refused',
    'renewed',
    'lost',
    'released',
    'again',
    'claimed',
    'late',
    'upgrade',
    '-',
    '%',
    'read',
    'write',
  ),
  fc.constantFrom(
    '',
    'NaN',
    '-1',
    '0',
    '1',
    '1.5',
    '1e300',
    '900',
    '9007199254740993',
    'null',
    'undefined',
    '[object Object]',
    ' ',
    '\0',
    '%E0%A4%A',
  ),
  fc.string({ maxLength: 10 }),
  fc.nat().map(String),
);

/** A reply that is often almost right. */
const reply = fc
  .tuple(
    fc.constantFrom('granted', 'busy', 'refused', 'renewed', 'lost', 'released', ''),
    fc.oneof(fc.array(word, { maxLength: 10 }), fc.tuple(fc.stringMatching(/^\d{15,17}$/))),
  )
  .map(([outcome, rest]) => [outcome, ATTEMPT, ...rest]);

const number = fc.oneof({ weight: 4, arbitrary: fc.nat().map(String) }, word);
const grant = fc
  .tuple(number, number, number, word, fc.array(number, { minLength: 1, maxLength: 3 }))
  .map((parts) => ['granted', ATTEMPT, ...parts.flat()]);

type Read = (reply: readonly string[]) => unknown;

/** What a reader returns for a reply; undefined if it rejects it with one of our errors. */
function readBy(read: Read, parts: readonly string[]): unknown {
  try {
    return read(parts);
  } catch (error) {
    if (error instanceof LockError) return undefined;
    throw new Error('Another error than ours', { cause: error });
  }
}

/** The property of acquires: what is believed to be a grant is one by the rules of the scripts. */
const checkGrant =
  (read: typeof replies.readAcquireReply) =>
  (parts: readonly string[]): void => {
    for (const [name, keys] of [
      ['acquire', ['a']],
      ['acquireMany', ['a', 'b']],
    ] as const) {
      const answer = readBy((one) => read({ keys }, one), parts) as { outcome?: string } | undefined;
      const command = { name, keys, words: [], operands: { attempt: ATTEMPT } };
      if (answer?.outcome === 'granted' && leaseIn(command, parts) === 0) throw new Error(`${name}: it is not a grant`);
    }
  };

const OTHERS: readonly Read[] = [
  (parts) => replies.readRenewReply({ key: 'k' }, parts),
  (parts) => replies.readReleaseReply('k', parts, true),
  (parts) => replies.readForceReleaseReply('k', parts),
  (parts) => replies.readWriteBackReply('k', parts),
  (parts) => replies.readLockState('k', parts),
  (parts) => replies.readRuns('k', parts),
];

/** No number in an outcome is NaN, infinite or negative, and no date is invalid. */
function checkNumbers(value: unknown): void {
  if (typeof value === 'number' && !(Number.isSafeInteger(value) && value >= 0))
    throw new Error(`It has the number ${value}`);
  if (value instanceof Date) return checkNumbers(value.getTime());
  if (typeof value !== 'object' || value === null) return;
  for (const [name, part] of Object.entries(value)) if (name !== 'pid') checkNumbers(part);
}

const item = fc
  .tuple(
    fc.constantFrom('hold', 'waiter', 'job', ''),
    fc.array(number, { minLength: 12, maxLength: 12 }),
    fc.constantFrom('w', 'r', '-'),
  )
  .map(([kind, parts, mode]) => [kind, ...parts.slice(1, 5), mode, ...parts.slice(6)]);
const record = fc
  .tuple(number, number, fc.constantFrom('', '3', 'x'), fc.array(item, { maxLength: 4 }), fc.array(word, { maxLength: 1 }))
  .map(([now, token, permits, items, rest]) => [now, token, permits, ...items.flat(), ...rest]); // prettier-ignore

function checkOthers(parts: readonly string[]): void {
  for (const read of OTHERS) checkNumbers(readBy(read, parts));
}

/** As it was before replies were checked. */
const trusting: typeof replies.readAcquireReply = (request, [outcome, , now, left, , , token]) =>
  outcome === 'busy' || outcome === 'refused'
    ? replies.readAcquireReply(request, [])
    : {
        outcome: 'granted',
        fencingTokens: request.keys.map(() => Number(token)),
        remainingMs: Number(left),
        serverTimeMs: Number(now),
      };

describe('the readers of replies', () => {
  it('take nonsense for no grant, and make no odd numbers of it', async () => {
    const granting = checkGrant(replies.readAcquireReply);
    await fuzz('codec', [
      part(5_000, reply, granting),
      part(5_000, grant, granting),
      part(5_000, reply, checkOthers),
      part(5_000, record, checkOthers),
    ]);
  }, 600_000);

  it('are seen to fail when they trust a reply', async () => {
    const { failure } = await search(part(1_000, grant, checkGrant(trusting)), 10_000);
    expect(failure).toContain('it is not a grant');
  });
});
