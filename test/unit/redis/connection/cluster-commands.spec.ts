import { systemRandomness } from '../../../../lib/core/randomness.js';
import { ClusterClient } from '../../../../lib/redis/client/cluster.js';
import { type Operands } from '../../../../lib/redis/client/redis-client.js';
import { type ServerAddress } from '../../../../lib/redis/client/server-address.js';
import { Connection } from '../../../../lib/redis/connection/connection.js';
import { createLockScripts, withHashes } from '../../../../lib/redis/scripts/lock-scripts.js';
import { NODE_INFO_TIMEOUT_MS, SLOTS_RETRY_MS } from '../../../../lib/redis/timing.js';
import { FakeClock, settled } from '../../../support/core/fake-clock.js';
import { FakeReporter } from '../../../support/core/fake-store.js';
import { type FakeSession, planOfFake, SILENT } from '../../../support/redis/fake-session.js';
import { rejection } from '../../../support/waiting/rejection.js';

const [ONE, TWO, THREE] = ['10.0.0.1', '10.0.0.2', '10.0.0.3'] as const;
const PORT = 7_000;
const { inspect } = withHashes(createLockScripts());
/** The slot of this key belongs to `ONE`. */
const call = { script: inspect, operands: [1, '{a}'], key: 'a', timeoutMs: 1_000 } as const;

/** Two nodes, and the connection of a store to them. `answers`: of a node, where it does not answer as usual. */
async function start(answers: (host: string, words: Operands) => unknown = () => undefined) {
  const clock = new FakeClock();
  const cluster = { shards: [[0, 8_191, [TWO, PORT]], [8_192, 16_383, [ONE, PORT]]] as unknown }; // prettier-ignore
  const sessions: FakeSession[] = [];
  const node = (at: ServerAddress) =>
    planOfFake(
      at,
      (words) => answers(at.host, words) ?? (words[0] === 'cluster' ? cluster.shards : [at.host]),
      sessions,
    );
  const reporter = new FakeReporter();
  const parts = { clock, random: systemRandomness, reporter };
  const client = new ClusterClient({ seeds: async () => [{ host: TWO, port: PORT }], node }, parts);
  const commands = new Connection(client, clock, reporter);
  commands.connect();
  await settled();
  const of = (host: string): FakeSession[] => sessions.filter(({ peer }) => peer?.host === host);
  const sentTo = (host: string): string[] =>
    of(host).flatMap(({ sent }) =>
      sent.filter((line) => /^(evalsha|asking)/.test(line)).map((line) => line.split(' ')[0]!),
    );
  const close = async (): Promise<void> => {
    await commands.close();
    expect(clock.timers).toBe(0);
  };
  return { clock, cluster, client, commands, reporter, of, sentTo, close };
}

const moved = (kind: string): Error =>
  Object.assign(new Error(`${kind} 15495 ${THREE}:${PORT}`), { name: 'ReplyError' });

describe('a command to a cluster', () => {
  it('reaches a node without slots to which its slot moves, however long a connection to it takes (ASK)', async () => {
    const { clock, client, commands, of, close } = await start((host, [name]) => {
      if (host === THREE && name === 'connect') return SILENT;
      return host === ONE && name === 'evalsha' ? moved('ASK') : undefined;
    });
    const answer = commands.run({ ...call, timeoutMs: 2_500 });
    // The query may ask this node first.
    await clock.advance(SLOTS_RETRY_MS + NODE_INFO_TIMEOUT_MS + 1);
    const [session] = of(THREE);
    expect(session!.isWritable).toBe(true);
    session!.listener.onReady();
    expect(await answer).toEqual([THREE]);
    // Until no command has gone there for one refresh.
    for (let i = 0; i < 2; i += 1) await new Promise<void>((resolve) => client.refreshSlots(resolve));
    expect(session!.isWritable).toBe(false);
    await close();
  });

  it('goes to another node when its own has left the cluster while it was down', async () => {
    let isDown = false;
    const gone = new Error('connect ECONNREFUSED');
    const { cluster, client, commands, of, sentTo, close } = await start((host) =>
      isDown && host === ONE ? gone : undefined,
    );
    isDown = true;
    for (const { listener } of of(ONE)) listener.onOver();
    const answer = commands.run(call);
    await settled();
    cluster.shards = [[0, 16_383, [TWO, PORT]]];
    await new Promise<void>((resolve) => client.refreshSlots(resolve));
    expect(await answer).toEqual([TWO]);
    expect(sentTo(ONE)).toEqual([]);
    await close();
  });

  it.each(['MOVED', 'ASK'])('is sent as soon as a node is ready that another one named by %s', async (kind) => {
    let isUp = false;
    const { clock, commands, sentTo, close } = await start((host, [command]) => {
      if (host === THREE && command === 'connect' && !isUp) return new Error('connect ECONNREFUSED');
      return host === ONE && command === 'evalsha' ? moved(kind) : undefined;
    });
    const answer = commands.run(call);
    await settled();
    expect(sentTo(THREE)).toEqual([]);
    isUp = true;
    await clock.advance(100);
    expect(await answer).toEqual([THREE]);
    expect(sentTo(THREE)).toEqual(kind === 'ASK' ? ['asking', 'evalsha'] : ['evalsha']);
    await close();
  });

  it.each(['MOVED', 'ASK'])('is not sent after its time to a node that another one named by %s', async (kind) => {
    let isUp = false;
    const { clock, commands, of, sentTo, close } = await start((host, [command]) => {
      if (host === THREE && command === 'connect' && !isUp) return SILENT;
      return host === ONE && command === 'evalsha' ? moved(kind) : undefined;
    });
    // A node that accepts the connection, and is silent.
    const failed = rejection<{ wasSent: boolean; message: string }>(commands.run(call));
    await clock.advance(call.timeoutMs);
    expect(await failed).toMatchObject({
      wasSent: false,
      message: expect.stringContaining('no connection within 1000 ms'),
    });
    isUp = true;
    for (const { listener } of of(THREE)) listener.onReady();
    await clock.advance(5_000);
    expect(sentTo(THREE)).toEqual([]);
    await close();
  });

  it('rejects at once with the words of the node that refuses its connection, and with its address', async () => {
    const refused = Object.assign(new Error('WRONGPASS invalid username-password pair'), { name: 'ReplyError' });
    const { clock, commands, reporter, close } = await start((host, [command]) =>
      host === ONE && command === 'connect' ? refused : undefined,
    );
    const text = `WRONGPASS invalid username-password pair (${ONE}:${PORT})`;
    const error = await rejection<{ retryable: boolean; message: string }>(commands.run(call));
    expect(error).toMatchObject({ retryable: false, message: expect.stringContaining(text) });
    await clock.advance(1_000);
    expect(reporter.lines.filter((line) => line.includes(text))).toHaveLength(1);
    expect(await commands.run({ ...call, operands: [1, '{b}'] })).toEqual([TWO]);
    await close();
  });
});

describe('a cluster none of whose nodes can be asked', () => {
  it('names the last one in its error', async () => {
    const { clock, commands, close } = await start(() => new Error('connect ECONNREFUSED'));
    const failed = rejection(commands.run(call));
    await clock.advance(call.timeoutMs);
    expect((await failed).message).toContain(`connect ECONNREFUSED (${TWO}:${PORT})`);
    await close();
  });
});
