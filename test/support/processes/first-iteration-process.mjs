// Iterates under the first lock of a process, on the built package, while a call that was started beside the loop waits
// for the same key. Tells its parent (test/nest/streams/first-iteration.process.spec.ts) how that call and one in the loop ended.
import process from 'node:process';
import { setTimeout as sleep } from 'node:timers/promises';
import 'reflect-metadata';
import { NestFactory } from '@nestjs/core';
import { Locked, RedisLockService } from '../../../dist/esm/index.js';
import { RedisLockTestingModule } from '../../../dist/esm/testing/index.js';

class Rows {
  async *rows() {
    yield* [1, 2];
  }
}
const method = Object.getOwnPropertyDescriptor(Rows.prototype, 'rows');
Locked('rows')(Rows.prototype, 'rows', method);
Object.defineProperty(Rows.prototype, 'rows', method);

const app = await NestFactory.createApplicationContext(RedisLockTestingModule.forRoot(), { logger: false });
const locks = app.get(RedisLockService);
const call = () => locks.withLock('rows', { waitMs: Infinity }, () => 'ran').catch(({ code }) => code);

let atRow = () => {};
const reached = new Promise((resolve) => (atRow = resolve));
let own;
const consume = async () => {
  for await (const row of new Rows().rows()) {
    atRow();
    if (row === 1) await sleep(500);
    else own = await call();
  }
};
const beside = async () => {
  await reached;
  return call();
};
const [other] = await Promise.all([beside(), consume()]);
await new Promise((resolve) => process.send({ own, other }, resolve));
await app.close();
process.disconnect();
