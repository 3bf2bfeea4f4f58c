import { systemRandomness } from '../../../../lib/core/randomness.js';
import { LockConfigurationError, LockStoreError } from '../../../../lib/core/lock.errors.js';
import { type AcquireReply, type ReleaseRequest } from '../../../../lib/core/store/lock-store.js';
import { QuorumNode } from '../../../../lib/redis/quorum/quorum-node.js';
import { gather } from '../../../../lib/redis/quorum/votes.js';
import { type RedisLockStore } from '../../../../lib/redis/redis-lock-store.js';
import { FakeClock, settled } from '../../../support/core/fake-clock.js';
import { ROLE_RECHECK_MS } from '../../../../lib/redis/timing.js';
import { acquireRequest, granted } from './fake-nodes.js';

const RELEASE: ReleaseRequest = { key: 'k', attempt: 'client.1', holdAtLeastMs: 0, leaseMs: 3_000 };

/** A server as a connection sees it: its run id, and the master that it replicates. */
interface Server {
  runId: string;
  masterPort?: number;
}

/** A store whose server and answers the test sets. */
class FakeStore {
  asked = 0;
  readonly replies: ((reply: AcquireReply) => void)[] = [];
  readonly released: ReleaseRequest[] = [];
  readonly commands;

  constructor(
    name: string,
    public server: Server,
  ) {
    const info = (): Promise<string> => Promise.resolve(this.#tell());
    const send = (command: () => Promise<string>) => command();
    this.commands = { address: name, epoch: 0, outage: null as Error | null, liveClient: () => ({ info }), send };
  }

  acquire = (): Promise<AcquireReply> => new Promise((resolve) => this.replies.push(resolve));

  close = (): Promise<void> => Promise.resolve();

  release = (request: ReleaseRequest): Promise<unknown> => Promise.resolve(this.released.push(request));

  /** The connection is lost, and the next one leads there. */
  lead(server: Server): void {
    this.commands.epoch += 1;
    this.server = server;
  }

  #tell(): string {
    this.asked += 1;
    const { runId, masterPort } = this.server;
    const role = masterPort ? `role:slave\r\nmaster_host:10.0.0.1\r\nmaster_port:${masterPort}` : 'role:master';
    return `# Server\r\nredis_version:7.4.0\r\nrun_id:${runId}\r\n# Replication\r\n${role}\r\n`;
  }
}

function setUp(...servers: Server[]) {
  const clock = new FakeClock();
  const told: string[] = [];
  const reporter = { debug: () => undefined, warn: () => undefined, error: (line: string) => void told.push(line) };
  const stores = servers.map((server, i) => new FakeStore(`n${i + 1}`, server));
  const nodes: QuorumNode[] = [];
  for (const store of stores) {
    nodes.push(new QuorumNode(store as unknown as RedisLockStore, nodes, clock, systemRandomness, reporter));
  }
  const isAnswered = (node: QuorumNode) =>
    node.ask(async () => true).catch((error: unknown) => (error as Error).message);
  const answers = async () => {
    const said: unknown[] = [];
    for (const node of nodes) said.push(await isAnswered(node));
    return said;
  };
  return { clock, told, stores, nodes, answers };
}

const [A, B, C] = [{ runId: 'a' }, { runId: 'b' }, { runId: 'c' }];

describe('a node of a quorum', () => {
  it('identifies its server on each connection, and again after some time', async () => {
    const { clock, stores, answers } = setUp(A, B, C);
    const asked = () => stores.map((store) => store.asked);
    for (let i = 0; i < 5; i += 1) expect(await answers()).toEqual([true, true, true]);
    expect(asked()).toEqual([1, 1, 1]);
    stores[1]!.lead({ runId: 'b2' });
    expect(await answers()).toEqual([true, true, true]);
    expect(asked()).toEqual([1, 2, 1]);
    await clock.advance(ROLE_RECHECK_MS);
    for (let i = 0; i < 5; i += 1) await answers();
    expect(asked()).toEqual([2, 3, 2]);
  });

  it.each([
    ['demoted', { runId: 'b', masterPort: 6379 }, 'n2 is a replica of 10.0.0.1:6379 now, and has no vote'],
    ['replaced behind its address', { runId: 'b2' }, 'another server may have answered'],
  ])('has no vote as soon as its server is %s while its connection stays', async (_what, server, why) => {
    const { clock, stores, nodes, answers } = setUp(A, B, C);
    await answers();
    stores[1]!.server = server;
    await clock.advance(ROLE_RECHECK_MS);
    const late: AcquireReply[] = [];
    const asked = nodes[1]!.acquire(acquireRequest(), 1_000, (reply) => late.push(reply));
    await settled();
    stores[1]!.replies[0]!(granted());
    await expect(asked).rejects.toMatchObject({ wasSent: true, message: expect.stringContaining(why) });
    expect(late).toEqual([granted()]);
  });

  it.each([
    ['the second, when it comes to lead to the first', 1, A, [true, expect.stringContaining('same server now'), true]],
    ['the second, when the first comes to lead to it', 0, B, [true, expect.stringContaining('same server now'), true]],
  ])('has no vote while it leads to the server of another node: %s', async (_which, moved, to, expected) => {
    const { stores, nodes, told, answers } = setUp(A, B, C);
    await answers();
    stores[moved]!.lead(to);
    await Promise.all(nodes.map((node) => node.identify()));
    expect(await answers()).toEqual(expected);
    expect(nodes.map(({ configurationError }) => configurationError)).toEqual([null, null, null]);
    await answers();
    expect(told).toHaveLength(1);
    stores[moved]!.lead([A, B, C][moved]!);
    await nodes[moved]!.identify();
    expect(await answers()).toEqual([true, true, true]);
    expect(told).toHaveLength(1);
  });

  it('has no vote when its connection was lost while it identified its server', async () => {
    const { stores, answers } = setUp(A, B, C);
    const first = answers();
    stores[0]!.lead({ runId: 'a' });
    expect(await first).toEqual([expect.stringContaining('was lost before it was known where it leads'), true, true]);
    expect(await answers()).toEqual([true, true, true]);
  });

  it('accepts an answer on a second connection to the same server', async () => {
    const { stores, nodes } = setUp(A, B, C);
    const asked = nodes[1]!.acquire(acquireRequest(), 1_000, () => undefined);
    await settled();
    stores[1]!.lead(B);
    stores[1]!.replies[0]!(granted());
    expect(await asked).toEqual(granted());
  });

  it('has no vote on an attempt before it answered its acquire, but gets its release', async () => {
    const { stores, nodes } = setUp(A, B, C);
    const [node, store] = [nodes[0]!, stores[0]!];
    const first = node.acquire(acquireRequest(), 1_000, () => undefined);
    await settled();
    const isAsked = (attempt: string) => node.askAbout(attempt, async () => true).catch((error: unknown) => error);
    expect(await isAsked('client.1')).toBeInstanceOf(LockStoreError);
    expect(await isAsked('client.2')).toBe(true);
    await expect(node.acquire(acquireRequest(), 1_000, () => undefined)).rejects.toBeInstanceOf(LockStoreError);
    await node.release(RELEASE, 1_000);
    expect(store.released).toEqual([{ ...RELEASE, unanswered: true }]);
    store.replies[0]!(granted());
    await first;
    expect(await isAsked('client.1')).toBe(true);
    expect(store.replies).toHaveLength(1);
  });

  it('learns from a release that an acquire was sent before it, though both waited for its identity', async () => {
    const { stores, nodes } = setUp(A, B, C);
    const acquiring = nodes[0]!.acquire(acquireRequest(), 1_000, () => undefined);
    await nodes[0]!.release(RELEASE, 1_000);
    expect(stores[0]!.released).toEqual([{ ...RELEASE, unanswered: true }]);
    stores[0]!.replies[0]!(granted());
    await acquiring;
  });

  it('keeps a release for a server that it does not lead to now, but none for a server that is not a node', async () => {
    const moved = setUp(A, B, C);
    await moved.answers();
    moved.stores[1]!.lead(A);
    await expect(moved.nodes[1]!.release(RELEASE, 1_000)).rejects.toBeInstanceOf(LockStoreError);
    moved.stores[1]!.lead(B);
    await moved.clock.advance(500);
    expect(moved.stores[1]!.released).toEqual([RELEASE]);
    const wrong = setUp(A, A, C);
    await wrong.answers();
    await expect(wrong.nodes[1]!.release(RELEASE, 1_000)).rejects.toBeInstanceOf(LockConfigurationError);
    expect([wrong.stores[1]!.released, wrong.clock.timers]).toEqual([[], 0]);
  });

  it('sends a release that it keeps once when it is back, for any number of requests, and none while it is away', async () => {
    const { clock, stores, nodes } = setUp(A, B, C);
    stores[0]!.commands.outage = new Error('connect ECONNREFUSED');
    for (let i = 0; i < 3; i += 1) {
      await expect(nodes[0]!.release(RELEASE, 1_000)).rejects.toMatchObject({ wasSent: false });
      await clock.advance(500);
    }
    expect([stores[0]!.asked, stores[0]!.released]).toEqual([0, []]);
    stores[0]!.commands.outage = null;
    await clock.advance(1_000);
    expect(stores[0]!.released).toEqual([RELEASE]);
    await nodes[0]!.release(RELEASE, 1_000);
    await clock.advance(10_000);
    expect([stores[0]!.released.length, clock.timers]).toEqual([2, 0]);
  });

  it.each(['the lease is over', 'it is closed'])('forgets a release that it keeps when %s', async (end) => {
    const { clock, stores, nodes, told } = setUp(A, B, C);
    stores[0]!.commands.outage = new Error('connect ECONNREFUSED');
    await expect(nodes[0]!.release(RELEASE, 1_000)).rejects.toMatchObject({ wasSent: false });
    await clock.advance(2_000);
    if (end === 'it is closed') {
      await nodes[0]!.close();
      nodes[0]!.releaseLater({ ...RELEASE, key: 'late' }, 1_000);
    } else await clock.advance(2_000);
    stores[0]!.commands.outage = null;
    await clock.advance(12_000);
    expect([stores[0]!.released, clock.timers, told]).toEqual([[], 0, []]);
  });
});

describe('a count of votes', () => {
  it('counts a server once, even when two nodes have led to it meanwhile', async () => {
    const { clock, nodes, stores } = setUp(A, B, C);
    // The second has answered before it is clear that the first also leads there.
    const ask = async (node: QuorumNode) => {
      if (node === nodes[0]) {
        await settled();
        stores[0]!.lead(B);
      }
      await node.identify();
      return node.runId;
    };
    const votes = await gather(clock, { nodes, ask, timeoutMs: 100, isDecided: () => false });
    expect(nodes.map((node) => votes.find((vote) => vote.node === node)!.value)).toEqual([undefined, 'b', 'c']);
    expect(votes.find(({ node }) => node === nodes[0])!.error).toMatchObject({
      message: expect.stringContaining('has voted already'),
    });
  });
});
