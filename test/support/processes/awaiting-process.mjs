// A separate process, on the built package, that awaits one thing, and notifies its parent when it arrives
// (test/nest/shutdown/shutdown.process.spec.ts). If the process ends earlier, nothing kept it alive.
import { subscribe } from 'node:diagnostics_channel';
import process from 'node:process';
import 'reflect-metadata';
import { Logger, Module } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { Redis } from 'ioredis';
import { Locked, RedisLockModule, RedisLockService } from '../../../dist/esm/index.js';
import { RedisLockTestingModule } from '../../../dist/esm/testing/index.js';

const { module, given, before = [], awaited } = JSON.parse(process.argv[2]);
Logger.overrideLogger(false);

const sockets = [];
subscribe('net.client.socket', ({ socket }) => sockets.push(socket));

const tell = (what) => new Promise((resolve) => process.send(what, resolve));
const quiet = (promise) => promise.catch(({ code, reason }) => reason ?? code);
const waits = { waitMs: 400 };
/** Other processes use the same Redis. */
const key = `held-${process.pid}`;
let held;
/** The application's own, which it closes itself. */
let client;

class Jobs {
  async run() {
    return 'ran';
  }
}
const descriptor = Object.getOwnPropertyDescriptor(Jobs.prototype, 'run');
Locked('job', { oncePer: 60_000, spreadMs: 400 })(Jobs.prototype, 'run', descriptor);
Object.defineProperty(Jobs.prototype, 'run', descriptor);

function lockModule() {
  if (!module.connection) return RedisLockTestingModule.forRoot(module);
  if (!given) return RedisLockModule.forRoot(module);
  client = new Redis(module.connection, given);
  client.on('error', () => undefined);
  return RedisLockModule.forRoot({ ...module, connection: client });
}
class AppModule {}
Module({ imports: [lockModule()], providers: [Jobs] })(AppModule);
const app = await NestFactory.createApplicationContext(AppModule, { logger: false });
const locks = app.get(RedisLockService);

const does = {
  use: () => locks.withLock(`warm-${process.pid}`, () => undefined),
  hold: async () => (held = await locks.acquire(key, { leaseMs: 3_000 })),
  /** Until the parent asks for it. */
  told: async () => {
    await tell('ready');
    await new Promise((resolve) => process.once('message', resolve));
  },
  /** Unrefs everything that is open, so that only the awaited call keeps the process alive. */
  unref: () => sockets.forEach((socket) => socket.unref()),
  close: () => app.close(),
  acquire: () => quiet(locks.acquire(key, waits)),
  withLock: () => quiet(locks.withLock(key, waits, () => undefined)),
  nested: () =>
    locks.withLock('outer', () => {
      const never = new Promise(() => undefined);
      void locks.withLock('outer', () => never);
      return quiet(locks.withLock('outer', waits, () => undefined));
    }),
  /** The process must not end before the release is confirmed. */
  early: async () => {
    const released = new Set();
    locks.events.on('released', ({ key: ofLock }) => released.add(ofLock));
    process.on('exit', () => (process.exitCode ||= released.has(key) ? 0 : 1));
    await locks.withLock(key, { awaitRelease: false }, () => undefined);
    await tell(released.has(key) ? 'released' : 'returned');
  },
  job: () => app.get(Jobs).run(),
  release: () => held.release(),
  extend: () => quiet(held.extend(3_000)),
  downgrade: () => quiet(held.downgrade()),
  inspect: () => quiet(locks.inspect(key)),
  lastRun: () => quiet(locks.lastRun(key)),
  forceRelease: () => quiet(locks.forceRelease(key)),
  list: () => quiet(collect(locks.list())),
  nothing: () => undefined,
};

async function collect(all) {
  const list = [];
  for await (const one of all) list.push(one);
  return list;
}

for (const step of before) await does[step]();
const value = await does[awaited]();
await tell(`after ${awaited}: ${typeof value === 'string' ? value : 'done'}`);
if (awaited !== 'nothing') await app.close();
client?.disconnect();
