import { createHash } from 'node:crypto';
import { readTransferText, type TransferredHold, transferText } from '../../../../../lib/core/hold/transfer-text.js';
import { LockConfigurationError } from '../../../../../lib/core/lock.errors.js';
import { thrownBy } from '../../../../support/waiting/rejection.js';

const HOLD: TransferredHold = {
  keyPrefix: 'lock:',
  holds: [{ key: 'order:7', attempt: 'client-1_x.abc00001', fencingToken: 1_800_000_000_000_000, unanswered: false }],
  mode: 'write',
  grantedMode: 'write',
  owner: undefined,
  handedOn: 0,
  leaseMs: 30_000,
  renew: true,
  maxHoldMs: Infinity,
  holdAtLeastMs: 0,
};

/** A text of this version with this payload, and the check that belongs to it. */
function forged(payload: string, begin = 'lock1.'): string {
  const text = begin + Buffer.from(payload).toString('base64url');
  return `${text}.${createHash('sha256').update(text).digest('base64url').slice(0, 8)}`;
}

const withHold = (change: object): string => forged(JSON.stringify({ ...HOLD, ...change }));
const [KEY] = HOLD.holds;

describe('the text of a transfer', () => {
  it.each<[string, Partial<TransferredHold>]>([
    ['of one key', {}],
    ['of several keys', { holds: [KEY!, { ...KEY!, key: 'b', attempt: 'c.00000002', unanswered: true }] }],
    ['of a named owner', { owner: 'the owner: ü' }],
    ['of a reader that wrote', { mode: 'read' }],
    ['of a lock that was handed on', { handedOn: 63 }],
    ['with a limit', { maxHoldMs: 1, renew: false, holdAtLeastMs: 5 }],
    ['of keys with any characters', { holds: [{ ...KEY!, key: 'a\n"\u{1F512}\u0000' }], keyPrefix: 'äpp:' }],
  ])('%s reads as what was written', (_, change) => {
    const hold = { ...HOLD, ...change };
    const text = transferText(hold);
    expect(text).toMatch(/^lock1\.[\w-]+\.[\w-]{8}$/);
    expect(readTransferText(text)).toEqual(hold);
  });

  it('is bounded in length, whatever its keys contain', () => {
    const holds = Array.from({ length: 16 }, (_, i) => ({ ...KEY!, key: '\u0001'.repeat(510) + i.toString(36) }));
    const text = transferText({ ...HOLD, holds, owner: '\u0001'.repeat(128), keyPrefix: '\u0001'.repeat(128) });
    expect(text.length).toBeLessThan(200_000);
    expect(readTransferText(text).holds).toHaveLength(16);
    expect(transferText(HOLD).length).toBeLessThan(500);
  });

  it.each<[string, unknown, string]>([
    ['nothing', undefined, 'got a value of type undefined'],
    ['an object', HOLD, 'got a value of type object'],
    ['another text', 'order:7', 'got another one of 7 characters'],
    ['an empty text', '', 'got another one of 0 characters'],
    ['a text of a newer version', forged('{}', 'lock2.'), 'got one of version 2'],
    ['a text without its end', transferText(HOLD).slice(0, -1), 'was cut or changed on its way'],
    ['a text that is too long', `lock1.${'a'.repeat(200_000)}`, 'got another one of 200006 characters'],
    ['a text with another character', transferText(HOLD).replace('lock1.e', 'lock1.f'), 'was cut or changed'],
    ['no JSON', forged('{'), 'was cut or changed'],
    ['null', forged('null'), 'was cut or changed'],
    ['no keys', withHold({ holds: [] }), 'was cut or changed'],
    ['too many keys', withHold({ holds: Array.from({ length: 17 }, (_, i) => ({ ...KEY!, key: `${i}` })) }), 'changed'],
    ['a key twice', withHold({ holds: [KEY, KEY] }), 'was cut or changed'],
    ['an attempt that is none', withHold({ holds: [{ ...KEY!, attempt: 'a b.c' }] }), 'was cut or changed'],
    ['a token that is none', withHold({ holds: [{ ...KEY!, fencingToken: 0 }] }), 'was cut or changed'],
    ['a key that is none', withHold({ holds: [{ ...KEY!, key: '\uD800' }] }), 'was cut or changed'],
    ['an unknown mode', withHold({ mode: 'upgrade' }), 'was cut or changed'],
    ['an owner that is none', withHold({ owner: 7 }), 'was cut or changed'],
    ['a lease that is none', withHold({ leaseMs: 'long' }), 'was cut or changed'],
    ['more tokens than a grant has', withHold({ handedOn: 64 }), 'was cut or changed'],
  ])('is refused when it is %s, and is not shown', (_, text, expected) => {
    const error = thrownBy(() => readTransferText(text));
    expect(error).toBeInstanceOf(LockConfigurationError);
    expect(error.message).toContain('Expected the text that `await lock.transfer()` has returned');
    expect(error.message).toContain(expected);
    expect(error.message.length).toBeLessThan(250);
  });
});
