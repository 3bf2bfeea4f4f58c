import { EventEmitter } from 'node:events';
import { describe, expect, it } from '@jest/globals';
import { Cluster, Redis } from 'ioredis';
import { LockConfigurationError } from '../../../../lib/core/lock.errors.js';
import { checkConnection } from '../../../../lib/redis/client/check-connection.js';
import { libraryOf } from '../../../../lib/redis/client/client-libraries.js';

const method = (): void => undefined;

describe('an object that looks like a client', () => {
  it.each<[string, object, string]>([
    ['without duplicate()', { evalsha: method, eval: method }, '`duplicate()`'],
    ['without evalsha()', { duplicate: method }, '`evalsha()`'],
    ['without events', { evalsha: method, eval: method, duplicate: method }, '`on()`'],
    ['that only has events besides', Object.assign(new EventEmitter(), { evalsha: method }), '`eval()`, `duplicate()`'],
  ])('is refused %s, and never taken for options', (_what, client, missing) => {
    const check = () => checkConnection(client);
    expect(check).toThrow(LockConfigurationError);
    expect(check).toThrow('Expected `connection` to be a redis:// or rediss:// URL, ioredis options');
    expect(check).toThrow('got an object that looks like a client, but lacks');
    expect(check).toThrow(missing);
    expect(check).toThrow('Pass the ioredis client itself');
    expect(() => checkConnection([{ port: 1 }, client])).toThrow('Expected `connection[1]` to be');
    expect(libraryOf(client)?.name).toBe('ioredis');
  });

  it('is accepted when it is one of ioredis', () => {
    const clients = [new Redis({ lazyConnect: true }), new Cluster([], { lazyConnect: true })];
    for (const client of clients) expect(() => checkConnection(client)).not.toThrow();
    expect(clients.map((client) => libraryOf(client)?.name)).toEqual(['ioredis', 'ioredis']);
  });

  it.each([
    ['options', { port: 1 }],
    ['a URL', 'redis://a'],
    ['nothing', null],
    ['nothing', undefined],
  ])('is none that is %s', (_what, value) => expect(libraryOf(value)).toBeUndefined());
});
