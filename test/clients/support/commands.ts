import { createHash } from 'node:crypto';
import { isRetryable, readRedirect } from '../../../lib/redis/connection/redis-errors.js';
import { type SingleClient } from '../../../lib/redis/client/redis-client.js';
import { closeAll, freshKey, openAdmin } from '../../support/apps/lock-app.js';
import { redisUrl } from '../../support/topologies/topology.js';
import { eventually } from '../../support/waiting/eventually.js';
import { rejection } from '../../support/waiting/rejection.js';
import { type Subject, SubjectClients, untilReady, writesDuring } from './subject.js';

const sha1 = (text: string): string => createHash('sha1').update(text).digest('hex');

/** The answers of commands, and their failures: the same from every library. */
export function commandConformance(subject: Subject): void {
  describe('a command', () => {
    let client: SingleClient;

    beforeEach(async () => {
      client = await new SubjectClients(subject).connected(redisUrl());
    });

    afterEach(closeAll);

    it('passes keys and arguments on as they are', async () => {
      const words = ['ä€😀', '', 'a\nb', 'x'.repeat(100_000)];
      const text = 'return {KEYS[1], KEYS[2], ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5]}';
      const answer = await client.evaluate(text, [2, 'k1', 'k2', 17, ...words]);
      expect(answer).toEqual(['k1', 'k2', '17', ...words]);
    });

    it('answers with lists, texts, whole numbers and null', async () => {
      const answer = await client.evaluate("return {1, 'a', {'b', {}}, false, redis.status_reply('OK'), '7'}", [0]);
      expect(answer).toEqual([1, 'a', ['b', []], null, 'OK', '7']);
      expect(await client.evaluate('return nil', [0])).toBeNull();
    });

    it('runs a script by its hash once the server knows it', async () => {
      const [text, key] = [`return ARGV[1] .. '${freshKey()}'`, freshKey()];
      const error = await rejection(client.evaluateSha(sha1(text), [1, key, 'x']));
      expect(error.name).toBe('ReplyError');
      expect(error.message).toMatch(/^NOSCRIPT /);
      const answer = await client.evaluate(text, [1, key, 'x']);
      expect(await client.evaluateSha(sha1(text), [1, key, 'x'])).toBe(answer);
    });

    it.each([
      [
        'WRONGTYPE',
        "redis.call('HSET', KEYS[1], 'a', 'b'); redis.call('EXPIRE', KEYS[1], 5); return redis.call('INCR', KEYS[1])",
      ],
      ['READONLY', "return redis.error_reply('READONLY of a test')"],
      ['OOM', "return redis.error_reply('OOM of a test')"],
      ['ERR', "return redis.error_reply('ERR of a test')"],
    ])('rejects with the text of the server: %s', async (code, text) => {
      const error = await rejection(client.evaluate(text, [1, freshKey()]));
      expect(error).toBeInstanceOf(Error);
      expect(error.name).toBe('ReplyError');
      expect(error.message).toMatch(new RegExp(`^${code} `));
      expect(isRetryable(error)).toBe(code === 'READONLY' || code === 'OOM');
    });

    it.each(['MOVED', 'ASK'])('does not follow the redirection %s', async (kind) => {
      const error = await rejection(client.evaluate(`return redis.error_reply('${kind} 7 10.1.2.3:7001')`, [0]));
      expect(error.name).toBe('ReplyError');
      expect(error.message).toBe(`${kind} 7 10.1.2.3:7001`);
      const address = { host: '10.1.2.3', port: 7001 };
      expect(readRedirect(error, address)).toEqual({ address, isAsk: kind === 'ASK' });
    });

    it('fails alone', async () => {
      const all = [
        client.evaluate('return 1', [0]),
        client.evaluate('nonsense', [0]),
        client.evaluate('return 3', [0]),
      ];
      const results = await Promise.allSettled(all);
      expect(results.map(({ status }) => status)).toEqual(['fulfilled', 'rejected', 'fulfilled']);
    });

    it('leaves in one write with others that are sent inside of `inOneWrite`, in their order', async () => {
      const key = freshKey();
      const text = "redis.call('PEXPIRE', KEYS[1], 10000); return redis.call('RPUSH', KEYS[1], ARGV[1])";
      const all: Promise<unknown>[] = [];
      const send = (): void => {
        for (let i = 0; i < 50; i += 1) all.push(client.evaluate(text, [1, key, i]));
      };
      const writes = await writesDuring(async () => {
        client.inOneWrite(send);
        await Promise.all(all);
      });
      expect(writes).toBe(1);
      expect(await Promise.all(all)).toEqual(all.map((_, i) => i + 1));
    });

    it('is sent when others fail inside of `inOneWrite`', async () => {
      const sent: Promise<unknown>[] = [];
      const send = (): void => {
        sent.push(client.evaluate('return 7', [0]));
        throw new RangeError('of the caller');
      };
      expect(() => client.inOneWrite(send)).toThrow(RangeError);
      expect(await Promise.all([...sent, client.evaluate('return 8', [0])])).toEqual([7, 8]);
    });

    it('TIME gives microseconds', async () => {
      const [before, time, after] = [Date.now(), await client.time(), Date.now()];
      expect(Number.isSafeInteger(time)).toBe(true);
      expect(time / 1_000).toBeGreaterThan(before - 1_000);
      expect(time / 1_000).toBeLessThan(after + 1_000);
    });

    it('INFO gives the text of a section', async () => {
      expect(await client.info('server')).toMatch(/^run_id:[0-9a-f]{40}\r?$/m);
      const all = await client.info();
      expect(all).toMatch(/^run_id:[0-9a-f]{40}\r?$/m);
      expect(all).toMatch(/^role:master\r?$/m);
      expect(all).toMatch(/^maxmemory_policy:/m);
    });

    it('WAIT gives a number of replicas', async () => {
      expect(await client.wait(0, 10)).toBe(0);
      expect(await client.wait(1, 10)).toBe(0);
    });

    it('SCAN gives a cursor and keys, until all are seen', async () => {
      const [prefix, admin] = [freshKey('scan'), openAdmin()];
      const keys = Array.from({ length: 250 }, (_, i) => `${prefix}:${i}`);
      await Promise.all(keys.map((key) => admin.set(key, '1', 'PX', 10_000)));
      const found = new Set<string>();
      let cursor = '0';
      do {
        const [next, some] = await client.scan(cursor, `${prefix}:*`, 100);
        expect(next).toMatch(/^\d+$/);
        for (const key of some) found.add(key);
        cursor = next;
      } while (cursor !== '0');
      expect([...found].toSorted()).toEqual(keys.toSorted());
    });

    it('SUBSCRIBE on a separate connection delivers messages', async () => {
      const [admin, channel] = [openAdmin(), freshKey('channel')];
      const subscriber = client.openSubscriber();
      expect(subscriber.endsForGood).toBe(false);
      await untilReady(subscriber);
      const messages: [string, string][] = [];
      subscriber.on('message', (...message) => messages.push(message));
      // Before it subscribes, it takes other commands.
      expect(await subscriber.info('server')).toContain('run_id:');
      await subscriber.subscribe(channel);
      await subscriber.subscribe(channel);
      for (const text of ['one', 'zwei € 😀', '']) await admin.publish(channel, text);
      await eventually(() => messages.length === 3);
      expect(messages).toEqual([
        [channel, 'one'],
        [channel, 'zwei € 😀'],
        [channel, ''],
      ]);
      await subscriber.close();
      await eventually(async () => ((await admin.call('PUBSUB', 'NUMSUB', channel)) as unknown[])[1] === 0);
      expect(client.isWritable).toBe(true);
    });
  });
}
