import { type Redis } from 'ioredis';
import { documentedRights } from '../../scripts/topologies.mjs';
import { closeAll } from '../support/apps/lock-app.js';
import { ownRedis } from '../support/redis/own-redis.js';
import { cli } from './support/cli.js';
import { hold, openStoreOf, tell } from './support/locks.js';

interface Finding {
  readonly check: string;
  readonly level: string;
  readonly text: string;
  readonly advice: string;
}

let url: string;
let admin: Redis;

beforeEach(async () => {
  ({ url, admin } = await ownRedis());
});

afterEach(closeAll);

async function examine(...args: string[]) {
  const { code, stdout, stderr } = await cli(['doctor', '--json', '--url', url, ...args]);
  const { findings } = JSON.parse(stdout) as { findings: Finding[] };
  const of = (check: string): Finding[] => findings.filter((one) => one.check === check);
  return { code, stderr, findings, of };
}

/** The number of calls of each write command, by any client. */
async function writes(): Promise<string[]> {
  const stats = await admin.info('commandstats');
  return ['hset', 'hdel', 'pexpire', 'del', 'set', 'publish'].filter((name) => stats.includes(`cmdstat_${name}:`));
}

describe('the doctor', () => {
  it('checks everything, and explains each finding with its fix', async () => {
    const { code, findings } = await examine();
    expect(code).toBe(0);
    expect(findings.map(({ check, level }) => `${check} ${level}`)).toEqual([
      'server ok',
      'eviction ok',
      'persistence warn',
      'replication ok',
      'clock ok',
      'rights ok',
      'lock ok',
      'pub/sub ok',
      'leftovers ok',
    ]);
    for (const { level, text, advice } of findings) {
      expect(text).toMatch(/^[A-Z].*\.$/);
      if (level !== 'ok') expect(advice).toMatch(/^[A-Z].*\.$/);
    }
  });

  it('leaves nothing behind', async () => {
    await examine();
    expect(await admin.dbsize()).toBe(0);
    expect(await admin.pubsub('CHANNELS', '*')).toEqual([]);
  });

  it('does not change locks', async () => {
    const locks = openStoreOf(url);
    await hold(locks, 'order:1');
    const before = await admin.dump('lock:order:1');
    await examine();
    expect(await admin.dump('lock:order:1')).toEqual(before);
    expect(await admin.keys('*')).toEqual(['lock:order:1']);
  });

  it('writes nothing with --read-only, and reports what it has skipped', async () => {
    const { code, of } = await examine('--read-only');
    expect(code).toBe(0);
    for (const check of ['lock', 'pub/sub']) {
      expect(of(check)).toMatchObject([{ level: 'skipped', text: 'Not checked: --read-only.' }]);
    }
    expect(await writes()).toEqual([]);
  });

  it('finds a policy that may evict a lock', async () => {
    await admin.config('SET', 'maxmemory', '100mb');
    await admin.config('SET', 'maxmemory-policy', 'volatile-lru');
    const { code, of } = await examine();
    expect(of('eviction')).toMatchObject([{ level: 'problem', text: expect.stringContaining('volatile-lru') }]);
    expect(code).toBe(1);
  });

  it('finds the permissions that a user lacks', async () => {
    const rights = documentedRights().filter((right) => !['+hset', '+scan'].includes(right));
    await admin.call('ACL', 'SETUSER', 'default', 'reset', 'on', 'nopass', ...rights);
    const { code, of } = await examine();
    expect(of('rights').map(({ level, text }) => [level, /: (\S+)\. Without/.exec(text)?.[1]])).toEqual([
      ['problem', '+hset'],
      ['warn', '+scan'],
    ]);
    expect(of('leftovers')).toMatchObject([{ level: 'skipped' }]);
    expect(code).toBe(1);
  });

  it.each([
    ['NOREPLICAS', 'min-replicas-to-write', '1'],
    ['OOM', 'maxmemory', '1'],
  ])('does not report %s as a permission that the user lacks', async (code, option, value) => {
    await admin.config('SET', option, value);
    const { of } = await examine();
    expect(of('rights')).toMatchObject([{ level: 'skipped', text: expect.stringContaining(code) }]);
    expect(of('lock')).toMatchObject([{ level: 'problem', advice: expect.stringContaining(code) }]);
  });

  it.each([
    ['no', 'warn'],
    ['everysec', 'ok'],
    ['always', 'ok'],
  ])('explains `appendfsync %s`', async (appendfsync, level) => {
    await admin.config('SET', 'appendfsync', appendfsync);
    await admin.config('SET', 'appendonly', 'yes');
    const { of } = await examine();
    expect(of('persistence')).toMatchObject([
      { level, text: expect.stringContaining(`\`appendfsync ${appendfsync}\``) },
    ]);
  });

  it('finds that no messages arrive', async () => {
    const rights = documentedRights().filter((right) => right !== '+subscribe');
    await admin.call('ACL', 'SETUSER', 'default', 'reset', 'on', 'nopass', ...rights);
    const { of } = await examine();
    expect(of('pub/sub')).toMatchObject([{ level: 'problem', text: expect.stringContaining('was not confirmed') }]);
    expect(of('rights')).toMatchObject([{ level: 'warn', text: expect.stringContaining('+subscribe') }]);
  });

  it('finds what other libraries have left under the prefix, and prints no value', async () => {
    const uuid = '0e37df36-f698-11e6-8dd4-cb9ced3df976';
    const random = '9f86d081884c7d659a2feaa0c55ad015';
    await admin.set('lock:a', random, 'PX', 60_000);
    await admin.set('lock:mutex:b', uuid, 'PX', 60_000);
    await admin.set('lock:c', uuid, 'PX', 60_000);
    await admin.set('lock:d', 'ADDED:2026-01-01T00:00:00Z@host', 'PX', 60_000);
    await admin.zadd('lock:semaphore:e', 1, uuid);
    await admin.hset('lock:f', `${uuid}:1`, 1);
    await admin.set('lock:g', 'a secret');
    await hold(openStoreOf(url), 'ours');
    const { code, of, findings } = await examine();
    const libraries = of('leftovers').map(({ text }) => /looks? like (.*?): /.exec(text)?.[1]);
    expect(new Set(libraries)).toEqual(
      new Set([
        'Redisson',
        'ShedLock',
        'murlock, or another library that writes a UUID',
        'redis-semaphore',
        'redlock',
        'something else (a string)',
      ]),
    );
    for (const value of [uuid, random, 'a secret']) expect(JSON.stringify(findings)).not.toContain(value);
    expect(code).toBe(0);
  });

  it('finds hashes that cannot be read as locks, and prints no value', async () => {
    await admin.hset('lock:newer', { s: 'E' });
    await admin.hset('lock:other', { s: 'a secret' });
    await admin.hset('lock:damaged', { s: 'B and a secret' });
    await hold(openStoreOf(url), 'ours');
    const { code, of, findings } = await examine();
    expect(of('leftovers')).toMatchObject([{ level: 'problem', text: expect.stringContaining('3 cannot be read') }]);
    expect([code, JSON.stringify(findings)]).toEqual([1, expect.not.stringContaining('a secret')]);
  });

  it('finds locks of version 1 of the data, and explains how to remove them', async () => {
    await admin.hset('lock:fields', { v: '1', token: '1700000000000000', released: ';' });
    await admin.hset('lock:text', { s: '11700000000000000', released: ';' });
    await hold(openStoreOf(url), 'ours');
    const { of } = await examine();
    expect(of('leftovers')).toMatchObject([
      {
        level: 'warn',
        text: expect.stringContaining('2 look like an earlier version'),
        advice: expect.stringContaining('`keepMs`'),
      },
    ]);
  });

  it('does not report the history as data of another library', async () => {
    await tell(openStoreOf(url), { event: 'acquired', key: 'order:1' });
    await hold(openStoreOf(url), 'order:1');
    const { of } = await examine();
    expect(of('leftovers')).toMatchObject([{ level: 'ok', text: expect.stringContaining('Of the 1 key ') }]);
  });

  it('names the option for locks with a hash tag', async () => {
    await hold(openStoreOf(url, { hashTag: 'shop' }), 'tagged');
    const { of } = await examine();
    expect(of('leftovers')).toMatchObject([{ level: 'warn', advice: expect.stringContaining('--hash-tag') }]);
  });

  it('finds a replica', async () => {
    const replica = await ownRedis(['--replicaof', '127.0.0.1', new URL(url).port]);
    const { code, stdout } = await cli(['doctor', '--json', '--url', replica.url]);
    expect([code, stdout]).toEqual([1, expect.stringContaining('refuses locks until it is promoted')]);
  });
});
