import { Redis } from 'ioredis';
import { type LockHistoryEntry, NO_FACTS } from '../../lib/core/history/history-entry.js';
import { RedisKeys } from '../../lib/redis/codec/redis-keys.js';
import { readReply } from '../../lib/redis/connection/command.js';
import { type Connection } from '../../lib/redis/connection/connection.js';
import { RedisHistory } from '../../lib/redis/redis-history.js';
import { createLockScripts } from '../../lib/redis/scripts/lock-scripts.js';
import { FakeClock } from '../support/core/fake-clock.js';
import { rejection } from '../support/waiting/rejection.js';
import { withClock } from './run-script.js';

const START = 1_800_000_000_000;
const prefix = `history:${process.pid}:`;
const keys = new RedisKeys(prefix);
let redis: Redis;

beforeAll(() => {
  redis = new Redis(process.env['REDIS_URL']!);
});
afterEach(() => redis.unlink(keys.historyKey));
afterAll(() => redis.disconnect());

/** A history in a real Redis, whose clock and whose delays the test makes. */
function setUp() {
  const clock = new FakeClock();
  const server = { ms: START };
  const way = { waitMs: 0, delayMs: 0, replies: [] as unknown[] };
  const pass = async (ms: number): Promise<void> => {
    server.ms += ms;
    await clock.advance(ms);
  };
  const scripts = {
    ...createLockScripts(),
    get appendHistory() {
      return withClock(createLockScripts().appendHistory, `local micros = ${server.ms}000`);
    },
  };
  const runScript: Connection['runScript'] = async ({ echo }, toSend) => {
    await pass(way.waitMs);
    const { script, operands } = toSend();
    await pass(way.delayMs);
    // The script of the time at which it arrives.
    const text = script.text.includes('XADD') ? scripts.appendHistory : script.text;
    const reply: unknown = way.replies.shift() ?? (await redis.eval(text, ...(operands as [number, ...string[]])));
    const parts = readReply(echo, reply);
    if (!parts) throw new Error('the reply of another command');
    return parts;
  };
  const commands = { runScript } as unknown as Connection;
  const history = new RedisHistory(commands, scripts, keys, clock);
  let batches = 0;
  const append = async (key: string, { ageMs = 0, of = [key] } = {}): Promise<void> => {
    const records = [{ ...NO_FACTS, event: 'acquired', key, keys: of, at: clock.now() - ageMs } as const];
    const terms = { host: 'host', pid: 1, maxEntries: 10_000, keepMs: Infinity };
    await history.append({ ...terms, id: `a.${(batches += 1)}`, now: clock.now(), records });
  };
  /** When something happened, in milliseconds since the start. */
  const timesOf = async (): Promise<Record<string, number>> => {
    const entries = await history.read({ limit: 100 });
    return Object.fromEntries(entries.map(({ key, at }) => [key, at.getTime() - START]));
  };
  return { server, way, pass, history, append, timesOf };
}

describe('the time of an entry', () => {
  it('is the moment of the event, by the clock of the server', async () => {
    const { append, timesOf } = setUp();
    await append('now');
    await append('before', { ageMs: 70 });
    expect(await timesOf()).toEqual({ now: 0, before: 0 });
  });

  it('is no later because the command waits for a connection', async () => {
    const { way, pass, append, timesOf } = setUp();
    way.waitMs = 3_000;
    await append('first', { ageMs: 100 });
    await pass(1_000);
    await append('second', { ageMs: 100 });
    expect(await timesOf()).toEqual({ first: -100, second: 3_900 });
  });

  it('is no later because the command arrives late, once the clock of the server is known', async () => {
    const { way, pass, append, timesOf } = setUp();
    await append('first');
    await pass(1_000);
    way.delayMs = 3_000;
    await append('second', { ageMs: 100 });
    way.delayMs = 0;
    await append('third', { ageMs: 50 });
    // The clock of the server may run faster than ours, by a thousandth.
    expect(await timesOf()).toEqual({ first: 0, second: 901, third: 3_950 });
  });

  it('is never before that of an earlier one, also when the first command was late', async () => {
    const { way, append, timesOf, history } = setUp();
    way.delayMs = 4_000;
    await append('first', { ageMs: 100 });
    way.delayMs = 0;
    await append('second', { ageMs: 3_000 });
    expect(await timesOf()).toEqual({ first: 3_900, second: 3_900 });
    expect((await history.read({ limit: 10 })).map(({ key }) => key)).toEqual(['second', 'first']);
  });

  it.each([
    ['ahead', 3_600_000],
    ['back', -3_600_000],
  ])('follows the clock of the server when that is set %s', async (_how, byMs) => {
    const { server, pass, append, timesOf } = setUp();
    await append('first');
    await pass(1_000);
    server.ms += byMs;
    await append('second');
    await pass(1_000);
    await append('third');
    expect(await timesOf()).toEqual({ first: 0, second: 1_000 + byMs, third: 2_000 + byMs });
  });

  it('follows a server whose clock runs a little faster or slower', async () => {
    for (const driftMs of [500, -500]) {
      const { server, pass, append, timesOf } = setUp();
      await append('first');
      await pass(3_600_000);
      server.ms += driftMs;
      await append('second');
      expect((await timesOf())['second']).toBe(3_600_000 + driftMs);
      await redis.unlink(keys.historyKey);
    }
  });
});

describe('the history of a key', () => {
  const names = [
    'a',
    'b',
    'a, b',
    '"a"',
    '"',
    'a"',
    'a\\',
    '\\',
    'x,"a\\',
    ',',
    '[',
    ']',
    '","',
    'a","b',
    'é\n\u0000',
    ' ',
  ];

  it('has the entries of that key, and none of a key with a part of its text', async () => {
    const { history, append } = setUp();
    const locks = names.flatMap((one) => [
      [one],
      ...names.filter((other) => other !== one).map((other) => [one, other]),
    ]);
    for (const lock of locks) await append(lock.join(', '), { of: lock });
    const textsOf = (lists: readonly (readonly string[])[]): string[] =>
      lists.map((list) => JSON.stringify(list)).sort();
    for (const key of names) {
      const found = (await history.read({ key, limit: 1_000 })).map((entry: LockHistoryEntry) => entry.keys);
      const expected = locks.filter((lock) => lock.includes(key));
      expect([key, textsOf(found)]).toEqual([key, textsOf(expected)]);
    }
  });
});

describe('an answer of the history', () => {
  it('is refused when it belongs to another question', async () => {
    const { way, history, append } = setUp();
    await append('k');
    const ofFirst = ['entries', '1', 0, ''];
    way.replies.push(ofFirst);
    expect(await history.read({ limit: 10 })).toEqual([]);
    way.replies.push(ofFirst);
    expect(await rejection(history.read({ limit: 10 }))).toMatchObject({ message: 'the reply of another command' });
    expect(await history.read({ limit: 10 })).toHaveLength(1);
  });

  it('is refused when none of our scripts can send it, in an error that names no key', async () => {
    const { way, history } = setUp();
    way.replies.push(['entries', '1', 1, '1-1', 'x.0']);
    expect(await rejection(history.read({ limit: 10 }))).toMatchObject({
      code: 'LOCK_STORE',
      key: undefined,
      message: expect.stringContaining('Redis was asked to read the history of the locks'),
    });
  });
});
