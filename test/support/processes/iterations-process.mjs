// Iterates under locks in the main flow of a module, after a top-level `await`, on the built package. Reports to its parent
// (test/nest/streams/iterations.process.spec.ts) how many of the locks are still in memory.
import process from 'node:process';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import 'reflect-metadata';
import { NestFactory } from '@nestjs/core';
import { currentLock, Locked } from '../../../dist/esm/index.js';
import { RedisLockTestingModule } from '../../../dist/esm/testing/index.js';

setFlagsFromString('--expose-gc');
const collectGarbage = runInNewContext('gc');

const locks = [];
class Rows {
  async *rows() {
    locks.push(new WeakRef(currentLock()));
    yield* [1, 2];
  }
}
const method = Object.getOwnPropertyDescriptor(Rows.prototype, 'rows');
Locked('rows')(Rows.prototype, 'rows', method);
Object.defineProperty(Rows.prototype, 'rows', method);

const app = await NestFactory.createApplicationContext(RedisLockTestingModule.forRoot(), { logger: false });
const rows = new Rows();
let read = 0;
for (let i = 0; i < 200; i += 1) {
  for await (const row of rows.rows()) read += row;
}
for (let i = 0; i < 5; i += 1) {
  await new Promise((resolve) => setImmediate(resolve));
  collectGarbage();
}
const kept = locks.filter((lock) => lock.deref() !== undefined).length;
await new Promise((resolve) => process.send({ read, kept }, resolve));
await app.close();
process.disconnect();
