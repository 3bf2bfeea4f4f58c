import {
  type AcquireRequest,
  type RenewReply,
  type RenewRequest,
  type WakeUpListener,
} from '../../../../lib/core/store/lock-store.js';
import { QuorumLockStore } from '../../../../lib/redis/quorum/quorum-lock-store.js';
import { type RedisLockStore } from '../../../../lib/redis/redis-lock-store.js';
import { systemRandomness } from '../../../../lib/core/randomness.js';
import { ManualClock, settled } from '../../../../lib/testing/manual-clock.js';
import { gate } from '../../../support/waiting/gate.js';
import { granted } from './fake-nodes.js';

const RENEWED: RenewReply = { outcome: 'renewed', remainingMs: 3_000 };
const LOST: RenewReply = { outcome: 'lost', lastToken: 0, revoked: false };
const ignore = (): void => undefined;

/** A quorum of three masters, each with its answer to a renewal. */
function setUp(answers: readonly (() => Promise<RenewReply>)[]) {
  const listeners: WakeUpListener[] = [];
  const closed: string[] = [];
  const restored: (readonly [node: string, attempt: string, mode: string])[] = [];
  const stores = answers.map((answer, i) => {
    const name = `n${i + 1}`;
    const info = async (): Promise<string> => `run_id:${name}\r\nrole:master\r\n`;
    const send = (command: () => Promise<string>) => command();
    const commands = { address: name, epoch: 0, outage: null, liveClient: () => ({ info }), send };
    const acquire = async ({ attempt, mode }: AcquireRequest) => {
      restored.push([name, attempt, mode]);
      return granted([7]);
    };
    const close = async () => void closed.push(name);
    const listen = (listener: WakeUpListener) => void listeners.push(listener);
    return { commands, renew: async () => [await answer()], acquire, close, listen } as unknown as RedisLockStore;
  });
  const reporter = { debug: ignore, warn: ignore, error: ignore };
  const parts = { clock: new ManualClock(), random: systemRandomness, reporter, confirmMs: 0 };
  return { store: new QuorumLockStore('client', stores, parts), clock: parts.clock, listeners, closed, restored };
}

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

describe('a renewal in a quorum', () => {
  it.each([
    ['restores the hold on a node that answers late that it has lost it', false, [['n3', 'client.1', 'write']]],
    ['restores nothing late once the hold is over', true, []],
  ])('%s', async (_what, isOver, restored) => {
    const late = gate();
    const answers = [async () => RENEWED, async () => RENEWED, async () => late.opened.then(() => LOST)];
    const quorum = setUp(answers);
    const hold = { isOver: false };
    expect(await quorum.store.renew([{ ...request, hold }])).toEqual([RENEWED]);
    expect(quorum.restored).toEqual([]);
    hold.isOver = isOver;
    late.open();
    await settled();
    expect(quorum.restored).toEqual(restored);
  });
});

describe('a quorum that is closed', () => {
  it('closes its nodes, and wakes no waiter after a message of one of them', async () => {
    const { store, clock, listeners, closed } = setUp(Array.from({ length: 3 }, () => async () => RENEWED));
    const woken: string[] = [];
    store.listen({ onWakeUp: (attempt) => void woken.push(attempt), onListening: ignore, onMessagesMissed: ignore });
    listeners[0]!.onWakeUp('client.1', { kind: 'wake' });
    await store.close();
    await clock.advance(1_000);
    expect([woken, closed]).toEqual([[], ['n1', 'n2', 'n3']]);
  });
});
