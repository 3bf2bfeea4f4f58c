import { jest } from '@jest/globals';
import * as ioredis from 'ioredis';
import * as iovalkey from 'iovalkey';
import { systemClock } from '../../../../lib/core/clock.js';
import { LockConfigurationError } from '../../../../lib/core/lock.errors.js';
import { systemRandomness } from '../../../../lib/core/randomness.js';
import { clientOf, libraryOf } from '../../../../lib/redis/client/client-libraries.js';
import { type SingleClient } from '../../../../lib/redis/client/redis-client.js';
import { FakeReporter } from '../../../support/core/fake-store.js';
import { thrownBy } from '../../../support/waiting/rejection.js';

const parts = { clock: systemClock, random: systemRandomness, reporter: new FakeReporter() };

const fail = (message: string, code?: string) => () => {
  throw Object.assign(new Error(message), { code });
};

const remove = (name: string): void => {
  jest.doMock(name, fail(`Cannot find module '${name}'\nRequire stack:\n- /app/index.js`, 'MODULE_NOT_FOUND'));
};

/** The object of the library behind a client. */
const behind = (connection: string | object): object =>
  (clientOf(connection, parts).client as unknown as { readonly client: object }).client;

describe('the library that opens a connection', () => {
  beforeEach(() => jest.resetModules());

  afterEach(() => {
    for (const name of ['ioredis', 'iovalkey', 'redis']) jest.dontMock(name);
  });

  it.each(['redis://127.0.0.1:1', { port: 1 }, { cluster: [{ port: 1 }] }])(
    'is ioredis if it is installed: %j',
    (to) => {
      jest.doMock('ioredis', () => ioredis);
      expect(behind(to)).toBeInstanceOf(typeof to === 'object' && 'cluster' in to ? ioredis.Cluster : ioredis.Redis);
    },
  );

  it.each(['redis://127.0.0.1:1', { port: 1 }, { cluster: [{ port: 1 }] }])('is else iovalkey: %j', (to) => {
    remove('ioredis');
    jest.doMock('iovalkey', () => iovalkey);
    expect(behind(to)).toBeInstanceOf(typeof to === 'object' && 'cluster' in to ? iovalkey.Cluster : iovalkey.Redis);
  });

  it('is asked for when none is installed', () => {
    for (const name of ['ioredis', 'iovalkey', 'redis']) remove(name);
    const error = thrownBy(() => clientOf('redis://user:geheim@127.0.0.1:1', parts));
    expect(error).toBeInstanceOf(LockConfigurationError);
    expect(error.message).toContain('npm install ioredis (or redis, or iovalkey)');
    expect(error.message).not.toContain('geheim');
  });

  it.each([
    ['it is broken', fail('boom')],
    [
      'it lacks a package of its own',
      fail("Cannot find module 'denque'\nRequire stack:\n- ioredis", 'MODULE_NOT_FOUND'),
    ],
  ])('does not count as missing when %s', (_what, load) => {
    jest.doMock('ioredis', load);
    expect(() => clientOf('redis://127.0.0.1:1', parts)).toThrow(/boom|denque/);
  });

  it('is not needed for a client that is given', () => {
    for (const name of ['ioredis', 'iovalkey', 'redis']) remove(name);
    const client = new iovalkey.Redis({ lazyConnect: true });
    expect(clientOf(client, parts)).toMatchObject({ isGiven: true });
    expect(behind(client)).toBe(client);
    client.disconnect();
  });

  it('is not needed for the further connections of a given client, which come from its own copy', async () => {
    for (const name of ['ioredis', 'iovalkey', 'redis']) remove(name);
    const sentinels = [{ host: '127.0.0.1', port: 1 }];
    const given = new iovalkey.Redis({ port: 1, lazyConnect: true });
    const behindSentinels = new iovalkey.Redis({ sentinels, name: 'mymaster', lazyConnect: true });
    const duplicates = [given, behindSentinels].map((one) => jest.spyOn(one, 'duplicate'));
    const client = clientOf(given, parts).client as SingleClient;
    const copies = [client.duplicate(), client.openSubscriber() as SingleClient];
    const watch = clientOf(behindSentinels, parts).client.watchMaster(() => undefined)!;
    const made = duplicates.flatMap(({ mock }) => mock.results.map(({ value }) => value as iovalkey.Redis));
    expect(made).toHaveLength(3);
    expect(made.map(({ options }) => [options.port, options.sentinels])).toEqual(made.map(() => [1, null]));
    for (const one of made) expect(one).toBeInstanceOf(iovalkey.Redis);
    await Promise.all([...copies, watch].map((one) => one.close()));
    for (const one of [given, behindSentinels]) one.disconnect();
  });
});

describe('a client', () => {
  it('is known by its methods, not by its class', () => {
    class Redis {}
    const method = (): void => undefined;
    const methods = ['evalsha', 'eval', 'duplicate', 'connect', 'disconnect', 'on', 'once', 'off'];
    const copy = Object.assign(new Redis(), Object.fromEntries(methods.map((name) => [name, method])));
    expect(libraryOf(copy)?.name).toBe('ioredis');
    expect(() => libraryOf(copy)!.checkClient(copy, '`connection`')).not.toThrow();
  });

  it('that subscribes is refused', () => {
    const client = new iovalkey.Redis({ lazyConnect: true });
    Object.defineProperty(client, 'mode', { value: 'subscriber' });
    expect(() => clientOf(client, parts)).toThrow('got one in subscriber mode');
    client.disconnect();
  });
});
