// Several callers of one lock in one process, on the built package. They begin with a message, and the parent gets each grant
// and each failure in the end.
import 'reflect-metadata';
import process from 'node:process';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { Logger, Module } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { RedisLockModule, RedisLockService } from '../../../dist/esm/index.js';

const { options, key, lock, callers, hangAt, stopAt } = JSON.parse(process.argv[2]);
Logger.overrideLogger(false);

class AppModule {}
Module({ imports: [RedisLockModule.forRoot(options)] })(AppModule);

const app = await NestFactory.createApplicationContext(AppModule);
const locks = app.get(RedisLockService);
const [grants, failures, isLocal] = [[], [], new Map()];

locks.events.on('acquired', ({ fencingToken, local }) => isLocal.set(fencingToken, local));

async function work({ fencingToken }) {
  grants.push({ token: fencingToken, local: isLocal.get(fencingToken) });
  if (grants.length === hangAt) {
    process.send({ hangs: fencingToken });
    await new Promise(() => undefined);
  }
  if (grants.length === stopAt) {
    process.send({ stops: fencingToken });
    // When the process resumes, it returns at once.
    process.kill(process.pid, 'SIGSTOP');
    return;
  }
  await nextTurn();
}

async function begin() {
  const call = () => locks.withLock(key, lock, work).catch((error) => failures.push(error.code));
  await Promise.all(Array.from({ length: callers }, call));
  process.send({ grants, failures });
}

process.once('message', () => void begin());
process.send({ isReady: true });
