// Two copies of the package in one process: the one inside this bundle, and the one in node_modules.
import { strict as assert } from 'node:assert';
import { randomUUID } from 'node:crypto';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { Injectable } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import * as bundled from 'nestjs-redis-lock';

/** In a variable, so no bundler follows it. */
const NAME = ['nestjs', 'redis', 'lock'].join('-');

const connection = process.env['REDIS_URL'];

@Injectable()
class Payments {
  @bundled.Locked('payment:<0>', { ifBusy: 'throw' })
  async pay(_id: string): Promise<string> {
    return bundled.currentLock().key;
  }
}

export async function checkCopies(): Promise<void> {
  const installed = createRequire(join(process.cwd(), 'package.json'))(NAME) as typeof bundled;
  assert.notEqual(installed.LockError, bundled.LockError, 'Expected two copies, got one.');
  const app = await NestFactory.createApplicationContext(
    { module: class App {}, imports: [installed.RedisLockModule.forRoot({ connection })], providers: [Payments] },
    { logger: false, abortOnError: false },
  );
  const other = await NestFactory.createApplicationContext(
    { module: class Other {}, imports: [bundled.RedisLockModule.forRoot({ connection, name: 'other' })] },
    { logger: false, abortOnError: false },
  );
  try {
    const others = other.get<bundled.RedisLockService>(bundled.getLockServiceToken('other'));
    for (const payments of [app.get(Payments), new Payments()]) {
      await checkPayments(payments, app.get(installed.RedisLockService), others, installed);
    }
  } finally {
    await app.close();
    await other.close();
  }
  await assert.rejects(new Payments().pay('late'), (error) => error instanceof installed.LockConfigurationError);
}

async function checkPayments(
  payments: Payments,
  locks: bundled.RedisLockService,
  others: bundled.RedisLockService,
  installed: typeof bundled,
): Promise<void> {
  const id = randomUUID();
  assert.equal(await payments.pay(id), `payment:${id}`);
  await others.withLock(`payment:${id}`, async () => {
    await assert.rejects(payments.pay(id), (error) => {
      assert.ok(error instanceof bundled.LockBusyError && error instanceof installed.LockBusyError);
      assert.ok(error instanceof bundled.LockError && !(error instanceof installed.LockLostError));
      return true;
    });
  });
  await locks.withLock(`payment:${id}`, async (lock) => {
    // Both copies have the lock of this chain of calls.
    assert.equal(bundled.currentLock().fencingToken, lock.fencingToken);
    assert.equal(await payments.pay(id), `payment:${id}`);
  });
}
