import { readAcquireReply, readLostReply } from '../../../../lib/redis/codec/store-replies.js';

const read = (text: string, several = false) => readAcquireReply('k', several, text.split(' '));

describe('a reply of the acquire script', () => {
  it('describes a grant, with its fire if it has one', () => {
    const grant = { outcome: 'granted', fencingTokens: [7], remainingMs: 900, serverTimeMs: 5 };
    expect(read('granted c.1 5 7 900 1 ')).toEqual(grant);
    expect(read('granted c.1 5 7 900 1 60000')).toEqual({ ...grant, fireMs: 60_000 });
  });

  it('describes a grant of several keys', () => {
    expect(read('granted c.1 5 900 7 8 9', true)).toEqual({
      outcome: 'granted',
      fencingTokens: [7, 8, 9],
      remainingMs: 900,
      serverTimeMs: 5,
    });
  });

  it('describes a busy lock, its holder, and the owner that writes', () => {
    const busy = { outcome: 'busy', retryMs: 30, ahead: 2, serverTimeMs: 5, lastToken: 77 };
    const nobody = { ...busy, holder: undefined, owner: undefined };
    expect(read('busy c.1 5 30 2     77')).toStrictEqual(nobody);
    const reply = ['busy', 'c.1', '5', '30', '2', 'host:1 A.b', 'ann', '1', '', '77'];
    expect(readAcquireReply('k', false, reply)).toStrictEqual({ ...busy, holder: 'host:1 A.b', owner: 'ann' });
    expect(readAcquireReply('k', true, reply)).toStrictEqual({ ...busy, holder: 'host:1 A.b', owner: 'ann' });
    // A parked hold has no holder, and a hold without a record still has an owner.
    expect(readAcquireReply('k', false, reply.with(5, ''))).toMatchObject({ holder: undefined, owner: 'ann' });
  });

  it('describes a refusal, with the attempt of a claim whose run has no outcome', () => {
    const claimed = { outcome: 'refused', reason: 'claimed' };
    expect(read('refused c.1 5 claimed a.7')).toStrictEqual({ ...claimed, claimedBy: 'a.7' });
    expect(read('refused c.1 5 claimed ')).toStrictEqual({ ...claimed, claimedBy: undefined });
    expect(read('refused c.1 5 upgrade ', true)).toStrictEqual({ ...claimed, reason: 'upgrade', claimedBy: undefined });
    expect(read('refused c.1 5 released')).toStrictEqual({ ...claimed, reason: 'released', claimedBy: undefined });
  });

  it('is rejected when a token is not a safe integer', () => {
    expect(() => read('granted c.1 5 9007199254740993 900 1 ')).toThrow('is not a safe integer');
    expect(() => read('granted c.1 5 900 7 x', true)).toThrow('is not a safe integer');
  });
});

it('the reply for a lost hold has the last token, and whether it was revoked', () => {
  expect(readLostReply('lost c.1 5 7 0'.split(' '))).toEqual({ outcome: 'lost', lastToken: 7, revoked: false });
  expect(readLostReply('lost c.1 5 7 1'.split(' '))).toEqual({ outcome: 'lost', lastToken: 7, revoked: true });
});
