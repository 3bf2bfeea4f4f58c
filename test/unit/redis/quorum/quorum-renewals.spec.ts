import { type RenewReply, type RenewRequest } from '../../../../lib/core/store/lock-store.js';
import { type QuorumNode } from '../../../../lib/redis/quorum/quorum-node.js';
import { QuorumRenewals } from '../../../../lib/redis/quorum/quorum-renewals.js';
import { ManualClock, settled } from '../../../../lib/testing/manual-clock.js';
import { gate } from '../../../support/waiting/gate.js';

const RENEWED: RenewReply = { outcome: 'renewed', remainingMs: 3_000 };
const LOST: RenewReply = { outcome: 'lost', lastToken: 0, revoked: false };

/** Renewals on three nodes, of which the third one answers last, that it has lost the hold. */
function lateLoss() {
  const late = gate();
  const answers: (() => Promise<RenewReply>)[] = [
    async () => RENEWED,
    async () => RENEWED,
    async () => late.opened.then(() => LOST),
  ];
  const nodes = answers.map((answer, i) => ({
    name: `n${i + 1}`,
    askAbout: async () => [await answer()],
  })) as unknown as QuorumNode[];
  const restored: string[] = [];
  const restore = (on: readonly QuorumNode[]): void => void restored.push(...on.map(({ name }) => name));
  const renewals = new QuorumRenewals(nodes, { restore }, new ManualClock());
  const request: RenewRequest = {
    key: 'k',
    attempt: 'client.1',
    fencingToken: 7,
    leaseMs: 3_000,
    mode: 'write',
    owner: undefined,
    holder: 'host:1',
    timeoutMs: 500,
  };
  return { renewals, request, late, restored };
}

describe('a renewal in a quorum', () => {
  it('restores the hold on a node that answers late that it has lost it', async () => {
    const { renewals, request, late, restored } = lateLoss();
    expect(await renewals.renew(request)).toEqual(RENEWED);
    expect(restored).toEqual([]);
    late.open();
    await settled();
    expect(restored).toEqual(['n3']);
  });
});
