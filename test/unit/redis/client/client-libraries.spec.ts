import Module from 'node:module';
import * as ioredis from 'ioredis';
import * as iovalkey from 'iovalkey';
import { systemClock } from '../../../../lib/core/clock.js';
import { LockConfigurationError } from '../../../../lib/core/lock.errors.js';
import { systemRandomness } from '../../../../lib/core/randomness.js';
import { openClient, libraryOf } from '../../../../lib/redis/client/client-libraries.js';
import { checkClient } from '../../../../lib/redis/client/client-library.js';
import { type SingleClient } from '../../../../lib/redis/client/redis-client.js';
import { FakeReporter } from '../../../support/core/fake-store.js';
import { rejection, thrownBy } from '../../../support/waiting/rejection.js';

const parts = { clock: systemClock, random: systemRandomness, reporter: new FakeReporter() };
const ALL = ['ioredis', 'iovalkey', 'redis'];
const missing = (name: string): Error =>
  Object.assign(new Error(`Cannot find module '${name}'\nRequire stack:\n- ioredis`), { code: 'MODULE_NOT_FOUND' });

/** Makes `require` return or throw what this returns for a package; undefined: it loads the package. */
function failToLoad(resultOf: (name: string) => object | undefined): void {
  const prototype = Module.prototype as unknown as { require(name: string): unknown };
  const load = Reflect.get(prototype, 'require') as () => unknown;
  jest.spyOn(prototype, 'require').mockImplementation(function (this: unknown, name) {
    const result = resultOf(name);
    if (result instanceof Error) throw result;
    if (result) return result;
    return Reflect.apply(load, this, [name]);
  });
}

const remove = (...names: string[]): void => failToLoad((name) => (names.includes(name) ? missing(name) : undefined));

afterEach(() => jest.restoreAllMocks());

describe('the library that opens a connection', () => {
  it.each([
    ['ioredis if it is installed', [], ioredis],
    ['else iovalkey', ['ioredis'], iovalkey],
  ])('is %s', async (_which, removed, { Redis }) => {
    remove(...removed);
    const connect = jest.spyOn(Redis.prototype, 'connect');
    const places = ['redis://127.0.0.1:1', { port: 1 }, { cluster: [{ host: '127.0.0.1', port: 1 }] }];
    for (const [i, to] of places.entries()) {
      const client = openClient(to, parts);
      await rejection(client.connect());
      expect(connect).toHaveBeenCalledTimes(i + 1);
      await client.close();
    }
  });

  it('is named in the error when none is installed', () => {
    remove(...ALL);
    const error = thrownBy(() => openClient('redis://user:geheim@127.0.0.1:1', parts));
    expect(error).toBeInstanceOf(LockConfigurationError);
    expect(error.message).toContain('npm install ioredis (or redis, or iovalkey)');
    expect(error.message).not.toContain('geheim');
  });

  it('is neither ioredis 4 nor redis 4', () => {
    const old: Record<string, object> = { ioredis: { Cluster: class {} }, redis: { createClient: () => null } };
    failToLoad((name) => old[name] ?? (name === 'iovalkey' ? missing(name) : undefined));
    expect(() => openClient('redis://127.0.0.1:1', parts)).toThrow('ioredis 5 or 6, iovalkey, or redis 5 or 6');
  });

  it.each([
    ['it is broken', new Error('boom')],
    ['it lacks one of its packages', missing('denque')],
  ])('does not count as missing when %s', (_what, error) => {
    failToLoad((name) => (name === 'ioredis' ? error : undefined));
    expect(() => openClient('redis://127.0.0.1:1', parts)).toThrow(error);
  });

  it('is not needed for duplicates of a given client, which come from its own copy', async () => {
    remove(...ALL);
    const sentinels = [{ host: '127.0.0.1', port: 1 }];
    const given = new iovalkey.Redis({ host: '127.0.0.1', port: 1, lazyConnect: true });
    const behindSentinels = new iovalkey.Redis({ sentinels, name: 'mymaster', lazyConnect: true });
    const connect = jest.spyOn(iovalkey.Redis.prototype, 'connect');
    const client = openClient(given, parts) as SingleClient;
    const copies = [client, client.duplicate(), client.openSubscriber()];
    for (const copy of copies) await rejection(copy.connect());
    const ports = connect.mock.contexts.map((one) => (one as iovalkey.Redis).options.port);
    expect([ports.length >= copies.length, new Set(ports)]).toEqual([true, new Set([1])]);
    expect(connect.mock.contexts).not.toContain(given);
    const master = openClient(behindSentinels, parts);
    const before = connect.mock.calls.length;
    const watch = master.watchMaster(() => undefined)!;
    expect(connect.mock.calls.length).toBe(before + 1);
    await Promise.all([...copies, watch, master].map((one) => one.close()));
    expect([given.status, behindSentinels.status]).toEqual(['wait', 'wait']);
  });
});

describe('a client', () => {
  it('is recognised by its methods, not by its class', () => {
    const methods = ['evalsha', 'eval', 'duplicate', 'connect', 'disconnect', 'on', 'once', 'off'];
    const copy = Object.fromEntries(methods.map((name) => [name, () => undefined]));
    expect(libraryOf(copy)?.name).toBe('ioredis');
    expect(() => checkClient(libraryOf(copy)!, copy, '`connection`')).not.toThrow();
  });
});
