// Several callers of one lock in one process, on the built package. They begin with the message `begin`, and end after
// their rounds, or with the message `end`. Then the parent is told of each grant and each failure.
import 'reflect-metadata';
import process from 'node:process';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { Logger, Module } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { RedisLockModule, RedisLockService } from '../../../dist/esm/index.js';

const { options, key, lock, callers, rounds, hangAt, stopAt } = JSON.parse(process.argv[2]);
Logger.overrideLogger(false);

class AppModule {}
Module({ imports: [RedisLockModule.forRoot(options)] })(AppModule);

const app = await NestFactory.createApplicationContext(AppModule);
const locks = app.get(RedisLockService);
const [grants, failures, times] = [[], [], new Map()];
const load = { isOver: false };

locks.events.on('acquired', ({ fencingToken, local }) => times.set(fencingToken, { local, at: performance.now() }));

async function work(caller, { fencingToken }) {
  grants.push({ token: fencingToken, caller, ...times.get(fencingToken) });
  if (grants.length === hangAt) {
    process.send({ hangs: fencingToken });
    await new Promise(() => undefined);
  }
  if (grants.length === stopAt) {
    process.send({ stops: fencingToken });
    // When it goes on, it returns at once.
    process.kill(process.pid, 'SIGSTOP');
    return;
  }
  await nextTurn();
}

async function callAgain(caller) {
  for (let round = 0; !load.isOver && round < (rounds ?? Infinity); round += 1) {
    await locks.withLock(key, lock, (held) => work(caller, held)).catch((error) => failures.push(error.code));
  }
}

async function begin() {
  await Promise.all(Array.from({ length: callers }, (_, i) => callAgain(i)));
  process.send({ grants, failures });
}

process.on('message', (message) => {
  if (message === 'end') load.isOver = true;
  else void begin();
});
process.send({ isReady: true });
