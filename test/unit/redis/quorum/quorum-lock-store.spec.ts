import { type LastRun, type LockState } from '../../../../lib/core/store/lock-state.js';
import {
  type AcquireRequest,
  type AdoptReply,
  type AdoptRequest,
  type LostReply,
  type ReleaseReply,
  type ReleaseRequest,
  type RenewReply,
  type RenewRequest,
  type WakeUpListener,
} from '../../../../lib/core/store/lock-store.js';
import { LockKeyError, LockStoreError } from '../../../../lib/core/lock.errors.js';
import { QuorumLockStore } from '../../../../lib/redis/quorum/quorum-lock-store.js';
import { type RedisLockStore } from '../../../../lib/redis/redis-lock-store.js';
import { QUORUM_READ_TIMEOUT_MS } from '../../../../lib/redis/timing.js';
import { systemRandomness } from '../../../../lib/core/randomness.js';
import { ManualClock, settled } from '../../../../lib/testing/manual-clock.js';
import { FakeReporter } from '../../../support/core/fake-store.js';
import { gate } from '../../../support/waiting/gate.js';
import { outcomeOf } from '../../../support/waiting/outcome.js';
import { rejection } from '../../../support/waiting/rejection.js';
import { granted } from './fake-nodes.js';

const RENEWED: RenewReply = { outcome: 'renewed', remainingMs: 3_000 };
const LOST: LostReply = { outcome: 'lost', lastToken: 0, revoked: false };
const REVOKED: LostReply = { ...LOST, revoked: true };
const ADOPTED: AdoptReply = { outcome: 'adopted', remainingMs: 3_000 };
const RELEASED: ReleaseReply = { outcome: 'released', holds: 0, lastToken: 7 };
const UNKNOWN: ReleaseReply = { outcome: 'unknown', holds: 0, lastToken: 7 };
const AWAY = new LockStoreError('connect ECONNREFUSED.', { wasSent: false });
const ignore = (): void => undefined;
const never = new Promise<never>(() => undefined);

/** What a master answers, and why it is away. */
type Master = Partial<RedisLockStore> & { readonly server?: string; readonly outage?: Error };

/** A quorum of masters; by default, each grants and releases. */
function setUp(masters: readonly Master[]) {
  const listeners: WakeUpListener[] = [];
  const calls: string[] = [];
  const restored: (readonly [node: string, attempt: string, mode: string])[] = [];
  const released: (readonly [node: string, request: ReleaseRequest])[] = [];
  const stores = masters.map(({ server, outage = null, ...answers }, i) => {
    const name = `n${i + 1}`;
    const info = async (): Promise<string> => (outage ? never : `run_id:${server ?? name}\r\nrole:master\r\n`);
    const send = (command: () => Promise<string>) => command();
    const byDefault = {
      acquire: async ({ attempt, mode }: AcquireRequest) => {
        restored.push([name, attempt, mode]);
        return granted([7]);
      },
      release: async (request: ReleaseRequest) => {
        released.push([name, request]);
        return RELEASED;
      },
      open: () => void calls.push(`open ${name}`),
      close: async () => void calls.push(`close ${name}`),
      listen: (listener: WakeUpListener) => void listeners.push(listener),
    };
    const commands = { address: name, epoch: 0, outage, liveClient: () => ({ info }), send };
    return { ...byDefault, commands, ...answers } as unknown as RedisLockStore;
  });
  const reporter = new FakeReporter();
  const parts = { clock: new ManualClock(), random: systemRandomness, reporter, confirmMs: 0 };
  const store = new QuorumLockStore('client', stores, parts);
  return { store, clock: parts.clock, reporter, listeners, calls, restored, released };
}

/** One master for each answer to a method; an error is thrown, and `never` is none. */
const mastersThat = (
  method: keyof RedisLockStore,
  answers: readonly unknown[],
  asked: (readonly unknown[])[] = [],
): Master[] =>
  answers.map((answer) => ({
    [method]: async (...args: readonly unknown[]) => {
      asked.push(args);
      if (answer instanceof Error) throw answer;
      return answer;
    },
  }));

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
    const quorum = setUp(mastersThat('renew', [[RENEWED], [RENEWED], late.opened.then(() => [LOST])]));
    const hold = { isOver: false };
    expect(await quorum.store.renew([{ ...request, hold }])).toEqual([RENEWED]);
    expect(quorum.restored).toEqual([]);
    hold.isOver = isOver;
    late.open();
    await settled();
    expect(quorum.restored).toEqual(restored);
  });

  it.each<[string, RenewReply[], Partial<RenewRequest>, string[]]>([
    ['on the first node that answers, when it has lost the hold', [LOST, RENEWED, RENEWED], {}, ['n1']],
    ['nothing for a downgrade, which asks for no lease', [LOST, RENEWED, RENEWED], { leaseMs: 0, mode: 'read' }, []],
    ['nothing on a node where an operator has ended the hold', [REVOKED, RENEWED, RENEWED], {}, []],
    ['nothing when a majority has lost the hold', [RENEWED, LOST, LOST], {}, []],
  ])('restores %s', async (_what, replies, rest, nodes) => {
    const { store, restored } = setUp(
      mastersThat(
        'renew',
        replies.map((reply) => [reply]),
      ),
    );
    await store.renew([{ ...request, ...rest }]);
    await settled();
    expect(restored.map(([node]) => node)).toEqual(nodes);
  });
});

describe('a release in a quorum', () => {
  const release: ReleaseRequest = { key: 'k', attempt: 'client.1', holdAtLeastMs: 0, leaseMs: 3_000 };

  it.each([
    ['is confirmed by two of three, without the third', [RELEASED, RELEASED, never], RELEASED],
    ['is known to be too late by two of three', [UNKNOWN, never, UNKNOWN], UNKNOWN],
  ])('%s', async (_what, answers, reply) => {
    expect(await setUp(mastersThat('release', answers)).store.release(release, 500)).toEqual(reply);
  });

  it('fails when too few nodes confirm it', async () => {
    const { store } = setUp(mastersThat('release', [RELEASED, AWAY, AWAY]));
    const error = await rejection(store.release(release, 500));
    expect(error).toMatchObject({ name: 'LockStoreError', key: 'k' });
    expect(error.message).toContain('Too few masters confirmed the release');
    await store.close();
  });
});

describe('an adoption in a quorum', () => {
  const adopt: AdoptRequest = {
    key: 'k',
    attempt: 'client.2',
    from: 'client.1',
    fencingToken: 7,
    leaseMs: 3_000,
    holder: 'host:2',
    unanswered: false,
  };
  const ended = (node: string, attempt: string) => [
    node,
    { key: 'k', attempt, leaseMs: 3_000, holdAtLeastMs: 0, unanswered: true },
  ];

  it.each([
    ['adopts by two of three, without the third', [ADOPTED, ADOPTED, never], ADOPTED, []],
    ['ends the old hold where it was not adopted', [ADOPTED, LOST, ADOPTED], ADOPTED, [ended('n2', 'client.1')]],
    ['ends the old hold on a node that fails', [AWAY, ADOPTED, ADOPTED], ADOPTED, [ended('n1', 'client.1')]],
    ['ends the new hold where only a minority has adopted it', [LOST, ADOPTED, LOST], LOST, [ended('n2', 'client.2')]],
  ])('%s', async (_what, answers, reply, releases) => {
    const { store, released } = setUp(mastersThat('adopt', answers));
    expect(await store.adopt(adopt, 500)).toEqual(reply);
    await settled();
    expect(released).toEqual(releases);
  });

  it('ends the old hold on a node that reports too late that it did not adopt it', async () => {
    const late = gate();
    const { store, released } = setUp(mastersThat('adopt', [ADOPTED, late.opened.then(() => LOST), ADOPTED]));
    await store.adopt(adopt, 500);
    late.open();
    await settled();
    expect(released).toEqual([ended('n2', 'client.1')]);
  });

  it('fails when too few nodes confirm it, and ends no hold: it may be adopted yet', async () => {
    const late = gate();
    const { store, clock, released } = setUp(mastersThat('adopt', [ADOPTED, AWAY, late.opened.then(() => LOST)]));
    const adoption = rejection(store.adopt(adopt, 500));
    await clock.advance(500);
    const error = await adoption;
    expect(error).toMatchObject({ name: 'LockStoreError', key: 'k' });
    expect(error.message).toContain('Too few masters confirmed the adoption');
    late.open();
    await settled();
    expect(released).toEqual([]);
  });
});

describe('a waiting acquire in a quorum', () => {
  it.each([
    [true, 'no node was sent it', [true, true, true]],
    [false, 'the first node was sent it', [false, true, true]],
  ])('is withdrawn from all nodes, and leaves nothing: %s, when %s', (isUnsent, _when, answers) => {
    const asked: string[] = [];
    const masters = answers.map((answer) => ({ withdraw: (attempt: string) => (asked.push(attempt), answer) }));
    expect(setUp(masters).store.withdraw('client.1')).toBe(isUnsent);
    expect(asked).toEqual(['client.1', 'client.1', 'client.1']);
  });
});

const state = (key: string, rest: Partial<LockState> = {}): LockState => ({
  key,
  mode: 'free',
  holders: [],
  waiters: 0,
  queue: [],
  permits: null,
  fencingToken: 7,
  readAt: new Date(1_000),
  ...rest,
});

const run = (job: string, startedMs: number): LastRun => ({
  job,
  fire: new Date(60_000),
  instance: 'host:1',
  attempt: `${job}.1`,
  started: new Date(startedMs),
  ended: null,
  outcome: 'running',
});
const [RUN_A, RUN_B] = [run('Jobs.a', 60_001), run('Jobs.b', 60_002)];

describe('an operator of a quorum', () => {
  it.each([
    [true, 'one node did', [false, true, false]],
    [false, 'no node did', [false, false, false]],
  ])('learns whether the lock was released by force: %s, when %s', async (isReleased, _when, answers) => {
    const asked: unknown[][] = [];
    const { store } = setUp(mastersThat('forceRelease', answers, asked));
    expect(await store.forceRelease('k', 7)).toBe(isReleased);
    expect(asked).toEqual([
      ['k', 7],
      ['k', 7],
      ['k', 7],
    ]);
  });

  it('reads the state that a majority reports', async () => {
    const answers = [state('k', { waiters: 2 }), state('k', { waiters: 1 }), state('k')];
    expect(await setUp(mastersThat('inspect', answers)).store.inspect('k')).toEqual(state('k', { waiters: 1 }));
  });

  it('reads the last run of each job', async () => {
    const { store } = setUp(mastersThat('runs', [[RUN_A, RUN_B], [RUN_A], [RUN_A, RUN_B]]));
    expect(await store.runs('k')).toEqual([RUN_A, RUN_B]);
    expect(await store.lastRun('k')).toEqual(RUN_B);
    expect(await store.lastRun('k', 'Jobs.a')).toEqual(RUN_A);
    expect(await store.lastRun('k', 'Jobs.c')).toBeNull();
  });

  const STATE = state('k');
  const [ANSWERING, SILENT] = mastersThat('inspect', [STATE, never]) as [Master, Master];
  const OUT: Master = { outage: AWAY };

  it.each<[string, Master[], object, object]>([
    ['a slow node, though a majority has answered', [ANSWERING, SILENT, ANSWERING], {}, { value: STATE }],
    ['no node that is away, if the others answer', [ANSWERING, OUT, ANSWERING], { value: STATE }, { value: STATE }],
    [
      'nodes that are away, if they are needed',
      [OUT, ANSWERING, OUT],
      {},
      { error: expect.objectContaining({ message: expect.stringContaining('Only 1 of 3 masters answered') }) },
    ],
  ])('waits for %s', async (_what, masters, atOnce, atLimit) => {
    const { store, clock } = setUp(masters);
    const outcome = outcomeOf(store.inspect('k'));
    await settled();
    expect(outcome).toEqual(atOnce);
    await clock.advance(QUORUM_READ_TIMEOUT_MS);
    expect(outcome).toEqual(atLimit);
  });
});

describe('the locks of a quorum', () => {
  /** A master with these keys; an error ends its list. */
  const masterWith = (...found: (string | Error)[]): Master => ({
    async *scan() {
      for (const one of found) {
        if (one instanceof Error) throw one;
        yield one;
      }
    },
    inspect: async (key) => state(key, { waiters: 1 }),
    runs: async (key) => (key === 'a' ? [RUN_A, RUN_B] : []),
  });
  const keysOf = async (found: AsyncIterable<{ readonly key: string }>): Promise<string[]> => {
    const keys: string[] = [];
    for await (const { key } of found) keys.push(key);
    return keys;
  };
  const ALL = { prefix: '', limit: 100 };

  it.each([
    ['each once, from all nodes', [masterWith('a', 'b'), masterWith('b', 'c'), masterWith('a', 'c')]],
    ['though one node fails on the way', [masterWith('a', AWAY), masterWith('b'), masterWith('c', 'a')]],
  ])('are listed %s', async (_how, masters) => {
    expect(await keysOf(setUp(masters).store.list(ALL))).toEqual(['a', 'b', 'c']);
  });

  it('end in an error that names the nodes which failed, when fewer than a majority answer', async () => {
    const { store } = setUp([masterWith('a'), masterWith(AWAY), masterWith(AWAY)]);
    const error = await rejection(keysOf(store.list(ALL)));
    expect(error).toMatchObject({ name: 'LockStoreError', nodes: [{ node: 'n2' }, { node: 'n3' }] });
    expect(error.message).toContain('Only 1 of 3 masters answered');
  });

  it('have the history that its nodes have', async () => {
    const read = async () => [{ id: '1-0', at: new Date(1) }];
    const master = { history: { read } } as unknown as Master;
    const { store } = setUp([master, master, master]);
    expect(await store.history.read({ limit: 9 })).toEqual(await read());
  });

  it('are listed with their jobs', async () => {
    const { store } = setUp([masterWith('a', 'b'), masterWith('a'), masterWith('b')]);
    const jobs: unknown[] = [];
    for await (const job of store.jobs(ALL)) jobs.push(job);
    expect(jobs).toEqual([
      { key: 'a', ...RUN_A },
      { key: 'a', ...RUN_B },
    ]);
  });
});

describe('a quorum that asks no node', () => {
  it('checks and groups keys as its nodes do, and has their prefix', () => {
    const checkKey = (key: string): void => {
      if (key === '') throw new LockKeyError('Expected a key.');
    };
    const node: Master = { keyPrefix: 'lock:', checkKey, groups: (keys) => [keys.toReversed()] };
    const { store } = setUp([node, node, node]);
    expect([store.keyPrefix, store.groups(['a', 'b'])]).toEqual(['lock:', [['b', 'a']]]);
    expect(() => store.checkKey('')).toThrow(LockKeyError);
  });
});

describe('a quorum that is opened', () => {
  it('opens its nodes, and reports at once that two of them lead to the same server', async () => {
    const { store, calls, reporter } = setUp([{ server: 'a' }, { server: 'b' }, { server: 'a' }]);
    store.open();
    await settled();
    expect(calls).toEqual(['open n1', 'open n2', 'open n3']);
    expect(reporter.lines).toEqual([expect.stringContaining('n1 and n3 are the same server')]);
  });
});

describe('a quorum that is closed', () => {
  it('closes its nodes, and wakes no waiter after a message of one of them', async () => {
    const { store, clock, listeners, calls } = setUp([{}, {}, {}]);
    const woken: string[] = [];
    store.listen({ onWakeUp: (attempt) => void woken.push(attempt), onListening: ignore, onMessagesMissed: ignore });
    listeners[0]!.onWakeUp('client.1', { kind: 'wake' });
    await store.close();
    await clock.advance(1_000);
    expect([woken, calls]).toEqual([[], ['close n1', 'close n2', 'close n3']]);
  });
});
