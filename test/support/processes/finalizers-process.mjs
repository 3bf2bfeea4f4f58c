// A separate process, on the built package: closes an app whose handles were all released, has it collected in the same
// turn as the handles, and reports to its parent (test/nest/shutdown/shutdown.process.spec.ts) whether finalizers still run.
import process from 'node:process';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import 'reflect-metadata';
import { NestFactory } from '@nestjs/core';
import { RedisLockService } from '../../../dist/esm/index.js';
import { RedisLockTestingModule } from '../../../dist/esm/testing/index.js';

setFlagsFromString('--expose-gc');
const collectGarbage = runInNewContext('gc');
const turn = () => new Promise((resolve) => setImmediate(resolve));

/** Each way in which a handle is done with. */
const uses = {
  released: async (locks) => (await locks.acquire('released')).release(),
  nothing: async () => undefined,
  lost: async (locks) => {
    const lock = await locks.acquire('lost');
    await locks.forceRelease('lost');
    await lock.extend(1_000).catch(() => undefined);
  },
  'lost, of several keys': async (locks) => {
    const lock = await locks.acquire(['lost-1', 'lost-2']);
    await locks.forceRelease('lost-1');
    await lock.extend(1_000).catch(() => undefined);
  },
  'held at the shutdown': async (locks) => void (await locks.acquire('held')),
};

async function use(way) {
  const app = await NestFactory.createApplicationContext(RedisLockTestingModule.forRoot(), { logger: false });
  await uses[way](app.get(RedisLockService));
  await app.close();
  return app;
}

let app = await use(process.argv[2]);
for (let i = 0; i < 5; i += 1) await turn();
const watched = new WeakRef(app);
await turn();
collectGarbage();
app = null;
collectGarbage();
const isCollected = watched.deref() === undefined;

const finalized = [];
const registry = new FinalizationRegistry((i) => finalized.push(i));
for (let i = 0; i < 20 && finalized.length === 0; i += 1) {
  registry.register({}, i);
  await turn();
  collectGarbage();
  await turn();
}
process.send({ isCollected, finalized: finalized.length > 0 });
