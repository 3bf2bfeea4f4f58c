// The built package in a Nest app, as its users have it.
import { createRequire } from 'node:module';

// The packages of this repository: murlock brings its own Nest, which is nearer.
const require = createRequire(new URL('../../package.json', import.meta.url));
require('reflect-metadata');
const { createClient } = require('redis');
const { Module } = require('@nestjs/common');
const { NestFactory } = require('@nestjs/core');
const { Locked, RedisLockModule, RedisLockService } = require('nestjs-redis-lock');

const EVENTS = [
  'acquired', 'acquireFailed', 'waiting', 'released', 'renewed', 'renewFailed', 'lost', 'skipped', 'timedOut', 'reentered',
  'forced',
]; // prettier-ignore

const nothing = () => {};

class Decorated {
  async run() {}
  async nested(key, inner) {
    for (let i = 0; i < inner; i++) await this.run(key);
  }
}
decorate(Decorated, 'run', Locked('<0>'));
decorate(Decorated, 'nested', Locked('<0>'));

/** Applies a decorator by hand, since this file is not compiled. */
function decorate(type, name, decorator) {
  const descriptor = Object.getOwnPropertyDescriptor(type.prototype, name);
  decorator(type.prototype, name, descriptor);
  Object.defineProperty(type.prototype, name, descriptor);
}

/** A client of node-redis that the app passes to the module; ioredis is installed, and opens URLs. */
async function nodeRedis(url) {
  const client = createClient({ url });
  client.on('error', nothing);
  return client.connect();
}

export async function open({ port, connection, library, leaseMs, waitMs = 60_000, awaitRelease, history }) {
  class AppModule {}
  const url = `redis://127.0.0.1:${port}`;
  const client = library === 'node-redis' ? await nodeRedis(url) : null;
  const options = { connection: client ?? connection ?? url, leaseMs, awaitRelease, history };
  Module({ imports: [RedisLockModule.forRoot(options)], providers: [Decorated] })(AppModule);
  const app = await NestFactory.createApplicationContext(AppModule, { logger: false });
  const locks = app.get(RedisLockService);
  const calls = app.get(Decorated);
  const withLock = (key, work) => locks.withLock(key, { waitMs }, work);
  return {
    // The release of a handle is always awaited.
    pair: awaitRelease === false ? withLock : undefined,
    acquire: (key) => locks.acquire(key, { waitMs }),
    acquireWithSignal: (key, signal) => locks.acquire(key, { waitMs, signal }),
    release: (lock) => lock.release(),
    read: (key) => locks.acquire(key, { waitMs, mode: 'read' }),
    withLock,
    decorated: (key) => calls.run(key),
    nested: (key, inner) => calls.nested(key, inner),
    nestedWithLock: (key, inner) =>
      locks.withLock(key, { waitMs }, async () => {
        for (let i = 0; i < inner; i++) await locks.withLock(key, { waitMs }, nothing);
      }),
    isLost: (lock) => !lock.held,
    listen: () => EVENTS.forEach((name) => locks.events.on(name, nothing)),
    stopListening: () => EVENTS.forEach((name) => locks.events.off(name, nothing)),
    async close() {
      await app.close();
      await client?.close();
    },
  };
}
