// What an app does with locks. Every app of this folder compiles this file with its own compiler and runs it, so it
// imports no other file: how one is named differs between module formats.
import { strict as assert } from 'node:assert';
import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { type INestApplicationContext, Injectable, type ModuleMetadata } from '@nestjs/common';
import { Redis, type RedisOptions } from 'ioredis';
import {
  currentLock,
  Locked,
  LockBusyError,
  LockError,
  LockLostError,
  LockShutdownError,
  ReadLocked,
  RedisLockModule,
  RedisLockService,
  WriteLocked,
} from 'nestjs-redis-lock';

type Work = () => Promise<void>;

@Injectable()
export class Orders {
  constructor(readonly locks: RedisLockService) {}

  @Locked('order:<0.id>')
  async charge(_order: { id: string }, work: Work): Promise<number> {
    await work();
    return currentLock().fencingToken;
  }

  @Locked('order:<0.id>', { ifBusy: 'throw' })
  async chargeNow(_order: { id: string }): Promise<void> {}

  @ReadLocked('price:<0>')
  async readPrice(_sku: string, work: Work): Promise<void> {
    await work();
  }

  @WriteLocked('price:<0>')
  async writePrice(_sku: string, work: Work): Promise<void> {
    await work();
  }

  // @ts-expect-error If the compiler could not read the types, it would refuse nothing.
  @Locked('order:<0.idd>')
  async refused(_order: { id: string }): Promise<void> {}
}

/** One instance of an app, with its own connections. */
export interface Instance {
  readonly app: INestApplicationContext;
  readonly locks: RedisLockService;
  readonly orders: Orders;
  /** The client that the app gave to the module. */
  readonly client: Redis | undefined;
  /** Those of its connections that Redis knows, each a line of CLIENT LIST. */
  readonly connections: () => Promise<string[]>;
}

export type OpenInstance = () => Promise<Instance>;

export interface Setup {
  readonly start: (metadata: ModuleMetadata) => Promise<INestApplicationContext>;
  readonly options?: RedisOptions;
  /** Whether the module gets a client instead of the options of one. */
  readonly givesClient?: boolean;
}

/** Runs a check; closes the instances that it opened. */
export async function withInstances(setup: Setup, check: (open: OpenInstance) => Promise<void>): Promise<void> {
  const opened: Instance[] = [];
  const admin = new Redis(redisAddress());
  try {
    await check(async () => {
      const instance = await openInstance(setup, admin);
      opened.push(instance);
      // A lock is handed over to those who listen.
      await eventually(async () => (await instance.connections()).some((line) => line.includes(' sub=1 ')));
      return instance;
    });
  } finally {
    for (const { app, client } of opened.toReversed()) {
      await app.close();
      client?.disconnect();
    }
    admin.disconnect();
  }
}

async function openInstance({ start, options = {}, givesClient = false }: Setup, admin: Redis): Promise<Instance> {
  const connectionName = `app-${randomUUID()}`;
  const address = { ...redisAddress(), ...options, connectionName };
  const client = givesClient ? new Redis(address) : undefined;
  const imports = [RedisLockModule.forRoot({ connection: client ?? address, drainMs: 100 })];
  const app = await start({ imports, providers: [Orders] });
  const connections = async (): Promise<string[]> =>
    String(await admin.client('LIST'))
      .split('\n')
      .filter((line) => line.includes(` name=${connectionName} `));
  return { app, locks: app.get(RedisLockService), orders: app.get(Orders), client, connections };
}

function redisAddress(): RedisOptions {
  const { hostname, port, username, password } = new URL(process.env['REDIS_URL'] ?? 'redis://127.0.0.1:6379');
  const user = password ? { username, password: decodeURIComponent(password) } : {};
  return { host: hostname, port: Number(port || 6379), ...user };
}

export async function eventually(isSo: () => Promise<boolean>): Promise<void> {
  const deadline = Date.now() + 10_000;
  while (!(await isSo())) {
    if (Date.now() > deadline) throw new Error(`It did not come true: ${String(isSo)}`);
    await sleep(5);
  }
}

/** A promise that is awaited later: until then its rejection is handled, which would otherwise hide why a check failed. */
function later<T>(promise: Promise<T>): Promise<T> {
  promise.catch(() => {});
  return promise;
}

/** Work that reports its begin, and lasts until the test ends it. */
export function openWork(): { work: Work; began: Promise<void>; end: () => void; hasBegun: () => boolean } {
  let [tell, end, hasBegun] = [() => {}, () => {}, false];
  const began = new Promise<void>((resolve) => (tell = resolve));
  const ended = new Promise<void>((resolve) => (end = resolve));
  const work = (): Promise<void> => {
    hasBegun = true;
    tell();
    return ended;
  };
  return { work, began, end, hasBegun: () => hasBegun };
}

async function waitsAndIsHandedOver(open: OpenInstance): Promise<void> {
  const [a, b] = [await open(), await open()];
  const order = { id: randomUUID() };
  const [first, second] = [openWork(), openWork()];
  const charged = later(a.orders.charge(order, first.work));
  await first.began;
  const waiting = later(b.orders.charge(order, second.work));
  await eventually(async () => (await a.locks.inspect(`order:${order.id}`)).waiters === 1);
  assert.equal(second.hasBegun(), false);
  first.end();
  const token = await charged;
  // The release gave it to the other instance: it was never free.
  assert.equal((await a.locks.inspect(`order:${order.id}`)).mode, 'write');
  await second.began;
  second.end();
  assert.ok((await waiting) > token);
  assert.equal(await a.locks.isLocked(`order:${order.id}`), false);
}

async function readersShare(open: OpenInstance): Promise<void> {
  const [a, b] = [await open(), await open()];
  const sku = randomUUID();
  const [one, other, writer] = [openWork(), openWork(), openWork()];
  const reading = [later(a.orders.readPrice(sku, one.work)), later(b.orders.readPrice(sku, other.work))];
  await Promise.all([one.began, other.began]);
  const writing = later(b.orders.writePrice(sku, writer.work));
  await eventually(async () => (await a.locks.inspect(`price:${sku}`)).waiters === 1);
  one.end();
  await reading[0];
  assert.equal(writer.hasBegun(), false);
  other.end();
  await writer.began;
  assert.equal((await a.locks.inspect(`price:${sku}`)).mode, 'write');
  writer.end();
  await Promise.all([...reading, writing]);
}

async function refusesWhatIsBusy(open: OpenInstance): Promise<void> {
  const [a, b] = [await open(), await open()];
  const order = { id: randomUUID() };
  const isBusy = (error: unknown): boolean =>
    error instanceof LockBusyError && error instanceof LockError && error.code === 'LOCK_BUSY';
  const result = await a.locks.withLock(`order:${order.id}`, async (lock) => {
    await assert.rejects(b.orders.chargeNow(order), isBusy);
    await assert.rejects(
      b.locks.withLock(lock.key, { waitMs: 0 }, () => 'ran'),
      isBusy,
    );
    // A call of the holder itself re-enters.
    await a.orders.chargeNow(order);
    return 'done';
  });
  assert.equal(result, 'done');
  await b.orders.chargeNow(order);
}

async function releasesAtTheEndOfTheBlock(open: OpenInstance): Promise<void> {
  const [a, b] = [await open(), await open()];
  const key = randomUUID();
  {
    await using lock = await a.locks.tryAcquire(key);
    assert.equal(lock?.key, key);
    assert.equal(await b.locks.tryAcquire(key), null);
  }
  await using lock = await b.locks.acquire(key, { waitMs: 0 });
  assert.equal(lock.held, true);
}

async function closesWhatIsItsOwn(open: OpenInstance): Promise<void> {
  const [a, b] = [await open(), await open()];
  const key = randomUUID();
  const lock = await a.locks.acquire(key);
  const waiting = later(b.locks.acquire(key));
  await eventually(async () => (await a.locks.inspect(key)).waiters === 1);
  // Those of commands and of wake-ups, in addition to the client that was passed in, which may connect only when it is used.
  await b.client?.ping();
  assert.equal((await b.connections()).length, b.client ? 3 : 2);
  await b.app.close();
  await assert.rejects(waiting, (error) => error instanceof LockShutdownError);
  await eventually(async () => (await b.connections()).length === (b.client ? 1 : 0));
  if (b.client) assert.equal(await b.client.ping(), 'PONG');
  await lock.release();
}

async function renewsAndIsTakenAway(open: OpenInstance): Promise<void> {
  const [a, b] = [await open(), await open()];
  const key = randomUUID();
  let isRenewed = false;
  a.locks.events.on('renewed', () => (isRenewed = true));
  const work = a.locks.withLock(key, { leaseMs: 3_000 }, async (lock) => {
    await eventually(async () => isRenewed);
    const listed: string[] = [];
    for await (const state of b.locks.list({ prefix: key })) listed.push(state.key);
    assert.deepEqual(listed, [key]);
    assert.equal(await b.locks.forceRelease(key), true);
    await eventually(async () => lock.signal.aborted);
  });
  await assert.rejects(work, (error) => error instanceof LockLostError && error.reason === 'revoked');
}

export const LOCK_CHECKS: Record<string, (open: OpenInstance) => Promise<void>> = {
  'a call waits for one on another instance, which hands the lock over': waitsAndIsHandedOver,
  'readers share a lock, and a writer waits for all of them': readersShare,
  'a busy lock is a LockBusyError for calls that do not wait': refusesWhatIsBusy,
  'a lease is renewed while the work runs, until an operator takes the lock away': renewsAndIsTakenAway,
  'a lock of a block is released at its end': releasesAtTheEndOfTheBlock,
  'an app that closes ends its waits and its own connections only': closesWhatIsItsOwn,
};
