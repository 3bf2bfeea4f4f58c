import { type ModelledScript, ScriptModel } from '../support/model/script-model.js';
import { valuesOf } from '../support/model/wire-values.js';
import { openArena } from './arena.js';
import { DEAD_CLIENT, CLIENTS } from './random-steps.js';
import { FAR_MS, NO_CLAIM, type Operands, runScript, virtualScripts, wireValues } from './run-script.js';

const [WAITING, HOLDING] = CLIENTS;
const NOW = 1_800_000_000_000;
const attempt = (client: string, n: number): string => `${client}.${String(n).padStart(6, '0')}`;

/** One lock on a server and in the model; each command must have the same reply and the same messages. */
describe('a hand-over to very many waiters', () => {
  const scripts = virtualScripts();
  const lock = 'hand-over';
  let arena: Awaited<ReturnType<typeof openArena>>;
  let model: ScriptModel;
  let told: string[];

  beforeAll(async () => {
    arena = await openArena(scripts, lock);
  });
  afterAll(() => arena.close());
  beforeEach(() => {
    told = [];
    const clientOf = (channel: string): string => channel.slice(arena.channelPrefix.length);
    model = new ScriptModel({
      micros: () => NOW * 1_000,
      subscribers: (channel) => (clientOf(channel) === DEAD_CLIENT ? 0 : 1),
      publish: (channel, message) => {
        if (clientOf(channel) !== DEAD_CLIENT) told.push(`${clientOf(channel)} ${message}`);
      },
    });
  });
  afterEach(() => arena.redis.unlink(lock));

  const run = async (name: ModelledScript, operands: Operands): Promise<string[]> => {
    const { redis, channelPrefix } = arena;
    const values = { lock, nowMicros: `${NOW}000`, keepMs: 10_000, channelPrefix, countReceivers: 1, ...operands };
    const expected = model.run(name, valuesOf(scripts[name], scripts[name].operands(wireValues(values) as never)));
    const reply = await runScript(redis, scripts[name], values);
    expect(reply.map(String)).toEqual(expected.map(String));
    return reply;
  };
  const terms = {
    owner: '-',
    leaseMs: 10_000,
    waiterLeaseMs: 6_000,
    permits: 0,
    take: 1,
    maxWaiters: 0,
    holder: 'host:1',
    ...NO_CLAIM,
  };
  const acquire = (who: string, mode: string, fair = 1): Promise<string[]> =>
    run('acquire', { ...terms, attempt: who, mode, fair });
  const release = (who: string): Promise<string[]> =>
    run('release', { attempt: who, holdAtLeastMs: 0, job: '-', runOutcome: '-' });

  /** What was published since it was asked last: the kind and the attempt. */
  const published = async (): Promise<string[]> => {
    const messages = await arena.published();
    expect(messages).toEqual(told.splice(0));
    return messages.map((message) => message.split(' ').slice(1, 3).join(' '));
  };
  const expectSameRecord = async (): Promise<void> => {
    expect(await arena.redis.hgetall(lock)).toEqual(expect.objectContaining(model.hash(lock)));
    expect((await arena.redis.pexpiretime(lock)) - FAR_MS).toBe(model.look(lock).expiresAt);
  };

  it('grants to 64 in one script and calls the next, whose script goes on', async () => {
    const reader = (i: number): string => attempt(WAITING, i);
    await acquire(attempt(HOLDING, 1), 'write');
    for (let i = 1; i <= 200; i++) await acquire(reader(i), 'read');
    await release(attempt(HOLDING, 1));
    const granted = (from: number, to: number) =>
      Array.from({ length: to - from + 1 }, (_, i) => `granted ${reader(from + i)}`);
    expect(await published()).toEqual([...granted(1, 64), `wake ${reader(65)}`]);
    expect((await acquire(reader(65), 'read'))[0]).toBe('granted');
    expect(await published()).toEqual([...granted(66, 129), `wake ${reader(130)}`]);
    await acquire(reader(130), 'read');
    expect(await published()).toEqual([...granted(131, 194), `wake ${reader(195)}`]);
    await acquire(reader(195), 'read');
    expect(await published()).toEqual(granted(196, 200));
    await expectSameRecord();
  });

  it.each([
    ['fair', 1, [`granted ${attempt(WAITING, 1)}`]],
    // Nothing was freed since, so a waiter that must ask counts as told: it delays the others for the rest of its waiter lease.
    ['unfair', 0, []],
  ])('passes 256 dead waiters over in one script, and is sent again, %s', async (_, fair, messages) => {
    await acquire(attempt(HOLDING, 1), 'write');
    for (let i = 1; i <= 260; i++) await acquire(attempt(DEAD_CLIENT, i), 'write', fair);
    await acquire(attempt(WAITING, 1), 'write');
    expect((await release(attempt(HOLDING, 1)))[5]).toBe('1');
    await expectSameRecord();
    expect((await release(attempt(HOLDING, 1)))[5]).toBe('');
    expect(await published()).toEqual(messages);
    await expectSameRecord();
  });
});
