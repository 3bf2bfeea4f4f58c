import { ConflictException, type ExecutionContext } from '@nestjs/common';
import { drizzle } from 'drizzle-orm/sql-js';
// @ts-expect-error The package has no types.
import initSqlJs from 'sql.js';
import { DataSource } from 'typeorm';
import { BullModule, getQueueToken } from '@nestjs/bullmq';
import { ScheduleModule, SchedulerRegistry } from '@nestjs/schedule';
import { type Queue } from 'bullmq';
import { APP_GUARD } from '@nestjs/core';
import { CommandBus, CqrsModule } from '@nestjs/cqrs';
import { Query, Resolver } from '@nestjs/graphql';
import { LockBusyError, lockKey } from '../../../lib/index.js';
import { closeAll, freshKey, startApp } from '../../support/apps/lock-app.js';
import { gate } from '../../support/waiting/gate.js';
import { rejection } from '../../support/waiting/rejection.js';
import { openDatabase } from '../support/open-database.js';
import { Cache, Prices, PriceSource } from './recipe-cache.js';
import { account, Accounts as DrizzleAccounts } from './recipe-drizzle.js';
import { Exports } from './recipe-tenants.js';
import { Account, Accounts as TypeormAccounts } from './recipe-typeorm.js';
import { redisUrl } from '../../support/topologies/topology.js';
import { eventually } from '../../support/waiting/eventually.js';
import { Invoices } from './recipe-bullmq.js';
import { Reports } from './recipe-cron.js';
import { Feed } from './recipe-leader.js';
import { Lottery } from './recipe-lottery.js';
import { startInstance, Work } from '../support/transports.js';
import { ask as askGraphql, startGraphql } from '../support/transports-graphql.js';
import { ask as askGateway, startGateways } from '../support/transports-ws.js';
import { ChargeOrder, ChargeOrderHandler } from './recipe-cqrs.js';
import { OrdersResolver } from './recipe-graphql.js';
import { PaymentProvider, Payments, Requests } from './recipe-idempotent.js';
import { Seats } from './recipe-websocket.js';
import { blocksOf, shownFiles } from '../support/shown-code.js';

afterEach(closeAll);

/** A token above that of any lock today. */
const LATER_TOKEN = 9_000_000_000_000_000;

describe('the recipe of TypeORM', () => {
  const start = async () => {
    const log: string[] = [];
    const dataSource = await openDatabase(log, [Account]);
    const providers = [TypeormAccounts, { provide: DataSource, useValue: dataSource }];
    const { app, locks } = await startApp({}, { providers });
    for (const event of ['acquired', 'released'] as const) locks.events.on(event, () => log.push(event));
    const rows = dataSource.getRepository(Account);
    const open = async (id: string, fencingToken: number): Promise<void> => {
      await rows.insert({ id, balance: 0, fencingToken });
      log.length = 0;
    };
    return { log, open, accounts: app.get(TypeormAccounts), find: (id: string) => rows.findOneByOrFail({ id }) };
  };

  it('commits inside the lock, with its token', async () => {
    const { log, open, accounts, find } = await start();
    const id = freshKey();
    await open(id, 0);
    await accounts.deposit(id, 5);
    expect(log).toEqual(['acquired', 'BEGIN', 'UPDATE', 'COMMIT', 'released']);
    const { balance, fencingToken } = await find(id);
    expect(balance).toBe(5);
    expect(fencingToken).toBeGreaterThan(0);
  });

  it('refuses the write of a holder that is late, and rolls it back', async () => {
    const { log, open, accounts, find } = await start();
    const id = freshKey();
    await open(id, LATER_TOKEN);
    expect(await rejection(accounts.deposit(id, 5))).toBeInstanceOf(ConflictException);
    expect(log).toEqual(['acquired', 'BEGIN', 'UPDATE', 'ROLLBACK', 'released']);
    expect((await find(id)).balance).toBe(0);
  });
});

describe('the recipe of Drizzle', () => {
  const start = async () => {
    const { Database } = await initSqlJs();
    const db = drizzle(new Database());
    db.run('CREATE TABLE account (id TEXT PRIMARY KEY, balance INTEGER NOT NULL, fencingToken INTEGER NOT NULL)');
    const provider = { provide: DrizzleAccounts, useFactory: () => new DrizzleAccounts(db) };
    const { app } = await startApp({}, { providers: [provider] });
    return { db, accounts: app.get(DrizzleAccounts) };
  };

  it('commits inside the lock, with its token', async () => {
    const { db, accounts } = await start();
    const id = freshKey();
    db.insert(account).values({ id, balance: 0, fencingToken: 0 }).run();
    await accounts.deposit(id, 5);
    await accounts.deposit(id, 2);
    const [row] = db.select().from(account).all();
    expect(row).toMatchObject({ balance: 7 });
    expect(row!.fencingToken).toBeGreaterThan(0);
  });

  it('refuses the write of a holder that is late', async () => {
    const { db, accounts } = await start();
    const id = freshKey();
    db.insert(account).values({ id, balance: 0, fencingToken: LATER_TOKEN }).run();
    expect(await rejection(accounts.deposit(id, 5))).toBeInstanceOf(ConflictException);
    expect(db.select().from(account).all()).toMatchObject([{ balance: 0 }]);
  });
});

describe('the recipe of a cache', () => {
  it('loads a price once on two instances', async () => {
    const kept = new Map<string, string>();
    const cache: Cache = {
      get: async (key) => kept.get(key),
      set: async (key, value) => void kept.set(key, value),
    };
    let loads = 0;
    const source: PriceSource = { load: async (sku) => `${sku} ${(loads += 1)}` };
    const providers = [Prices, { provide: Cache, useValue: cache }, { provide: PriceSource, useValue: source }];
    const apps = await Promise.all([1, 2].map(() => startApp({}, { providers })));
    const sku = freshKey();
    const prices = await Promise.all(apps.flatMap(({ app }) => [1, 2, 3].map(() => app.get(Prices).price(sku))));
    expect(new Set(prices)).toEqual(new Set([`${sku} 1`]));
    expect(loads).toBe(1);
  });
});

describe('the recipe of tenants', () => {
  it('exports one at a time per seat of a tenant, and refuses the next one', async () => {
    const { app } = await startApp({}, { providers: [Exports] });
    const exports = app.get(Exports);
    const tenant = { id: freshKey(), seats: 2 };
    const work = gate();
    const until = async (): Promise<string> => {
      await work.opened;
      return 'all';
    };
    const running = [exports.export(tenant, until), exports.export(tenant, until)];
    try {
      // With more seats, a tenant would find a third one free.
      const refused = await rejection(exports.export(tenant, until));
      expect(refused).toBeInstanceOf(LockBusyError);
      expect((refused as LockBusyError).permits).toBe(2);
      expect(await exports.export({ ...tenant, id: freshKey() }, async () => 'it')).toMatch(/exported it$/);
    } finally {
      work.open();
    }
    expect(await Promise.all(running)).toEqual([`${tenant.id} exported all`, `${tenant.id} exported all`]);
    expect(await exports.charge(tenant, '7')).toBe(`${tenant.id} charged 7`);
  });
});

const scheduled = { imports: [ScheduleModule.forRoot()] };

describe('the recipe of a cron job', () => {
  it('runs a fire on one of two instances', async () => {
    const keyPrefix = `${freshKey('recipe')}:`;
    const start = () => startApp({ keyPrefix }, { ...scheduled, providers: [Reports] });
    const apps = [await start(), await start()];
    const skipped: string[] = [];
    for (const { locks } of apps) locks.events.on('skipped', ({ reason }) => skipped.push(reason));
    await Promise.all(apps.map(({ app }) => app.get(SchedulerRegistry).getCronJob('noon-report').fireOnTick()));
    await eventually(() => skipped.length === 1);
    expect(apps.flatMap(({ app }) => app.get(Reports).written)).toEqual(['noon']);
  });
});

describe('the recipe of a lottery', () => {
  it('draws once per fire, on any instance', async () => {
    const keyPrefix = `${freshKey('recipe')}:`;
    const start = () => startApp({ keyPrefix }, { ...scheduled, providers: [Lottery] });
    const second = (): number => Math.floor(Date.now() / 1_000);
    const first = second();
    const apps = [await start(), await start()];
    const drawn = (): number[] => apps.flatMap(({ app }) => app.get(Lottery).drawn);
    await eventually(() => drawn().length >= 2, { timeoutMs: 25_000 });
    const tokens = drawn();
    expect(new Set(tokens).size).toBe(tokens.length);
    // There is one fire a second; two instances without the lock would draw twice as often.
    expect(tokens.length).toBeLessThanOrEqual(second() - first + 1);
  }, 40_000);
});

describe('the recipe of a queue', () => {
  it('writes the invoices of a customer one after the other', async () => {
    const prefix = freshKey('bull');
    const bull = BullModule.forRoot({ prefix, connection: { url: redisUrl() } });
    const imports = [bull, BullModule.registerQueue({ name: 'invoices' })];
    const { app, locks } = await startApp({ keyPrefix: `${prefix}:` }, { imports, providers: [Invoices] });
    const order: string[] = [];
    for (const event of ['acquired', 'released'] as const) locks.events.on(event, () => order.push(event));
    const queue = app.get<Queue>(getQueueToken('invoices'));
    const added = await queue.addBulk(Array.from({ length: 3 }, () => ({ name: 'invoice', data: { customer: 'c' } })));
    const values = added.map(({ id }) =>
      eventually(async () => ((await queue.getJob(id!))?.returnvalue as string | null) ?? false),
    );
    expect(await Promise.all(values)).toEqual(Array.from({ length: 3 }, () => 'invoice for c'));
    expect(order).toEqual(Array.from({ length: 3 }, () => ['acquired', 'released']).flat());
  });
});

describe('the recipe of a leader', () => {
  it('reads on one instance, and on the other when that one ends', async () => {
    const keyPrefix = `${freshKey('recipe')}:`;
    const start = () => startApp({ keyPrefix }, { providers: [Feed] });
    const [a, b] = [await start(), await start()];
    const [first, second] = [a.app.get(Feed), b.app.get(Feed)];
    await eventually(() => first.isReading() !== second.isReading());
    const [leads, waits] = first.isReading() ? [first, second] : [second, first];
    await eventually(() => leads.read.length > 1);
    expect(waits.read).toEqual([]);
    await (first.isReading() ? a : b).close();
    await eventually(() => waits.read.length > 0);
    expect(waits.read[0]).toBeGreaterThan(leads.read.at(-1)!);
  });
});

/** A schema needs a query. */
@Resolver()
class OneQuery {
  @Query(() => String)
  hello(): string {
    return 'hello';
  }
}

it('the recipe of a mutation locks its order', async () => {
  const app = await startGraphql([OrdersResolver, OneQuery]);
  const id = freshKey();
  const { data } = await askGraphql(app, 'mutation ($id: String!) { charge(id: $id) }', { id });
  expect(data).toEqual({ charge: `charged ${id}` });
  expect(app.acquired).toEqual([`order:${id}`]);
});

it('the recipe of a gateway books a seat once', async () => {
  const app = await startGateways([Seats]);
  const seat = freshKey();
  const answers = await Promise.all([askGateway(app, 'book', { seat }), askGateway(app, 'book', { seat })]);
  expect(answers.map(({ event }) => event).toSorted()).toEqual(['booked', 'refused']);
  expect(app.acquired).toEqual([`seat:${seat}`, `seat:${seat}`]);
});

it('the recipe of a command locks its order', async () => {
  const app = await startInstance({ imports: [CqrsModule], providers: [ChargeOrderHandler] }, new Work());
  const id = freshKey();
  expect(await app.app.get(CommandBus).execute(new ChargeOrder(id))).toBe(`charged ${id}`);
  expect(app.acquired).toEqual([`order:${id}`]);
});

describe('the recipe of an idempotent endpoint', () => {
  /** Replaces a guard that checks the signed-in user. */
  const signIn = { canActivate: (context: ExecutionContext) => Boolean(signedIn(context.switchToHttp().getRequest())) };
  const signedIn = (request: { headers: Record<string, string>; user?: object }) =>
    (request.user = { tenant: request.headers['x-tenant'], id: request.headers['x-user'] });

  /** Charges each id once. */
  class Provider implements PaymentProvider {
    readonly charges = new Map<string, string>();

    async charge(id: string, amount: number): Promise<string> {
      if (!this.charges.has(id)) this.charges.set(id, `charge ${this.charges.size + 1} of ${amount}`);
      return this.charges.get(id)!;
    }
  }

  const start = async () => {
    const provider = new Provider();
    const providers = [
      Requests,
      { provide: PaymentProvider, useValue: provider },
      { provide: APP_GUARD, useValue: signIn },
    ];
    const { app, acquired } = await startInstance({ controllers: [Payments], providers }, new Work());
    const url = `${await app.getUrl()}/payments`;
    const pay = (key: string | undefined, { user = 'ann', tenant = 't', amount = 5 } = {}) =>
      fetch(url, {
        method: 'POST',
        headers: {
          'x-user': user,
          'x-tenant': tenant,
          'content-type': 'application/json',
          ...(key === undefined ? {} : { 'idempotency-key': key }),
        },
        body: JSON.stringify({ amount }),
      });
    return { acquired, provider, requests: app.get(Requests), pay };
  };

  it('charges once for requests that are repeated', async () => {
    const { acquired, provider, pay } = await start();
    const key = freshKey();
    const answers = await Promise.all([1, 2, 3].map(() => pay(key)));
    const texts = await Promise.all(answers.map((answer) => answer.text()));
    expect(texts).toEqual(['charge 1 of 5', 'charge 1 of 5', 'charge 1 of 5']);
    expect(provider.charges.size).toBe(1);
    expect(acquired).toEqual(Array.from({ length: 3 }, () => lockKey`payment:${'t'}:${'ann'}:${key}`));
  });

  it('gives no user the answer of another user or tenant', async () => {
    const { provider, pay } = await start();
    const key = freshKey();
    const answers = await Promise.all([pay(key), pay(key, { user: 'bob' }), pay(key, { tenant: 'u' })]);
    const texts = await Promise.all(answers.map((answer) => answer.text()));
    expect(texts.toSorted()).toEqual(['charge 1 of 5', 'charge 2 of 5', 'charge 3 of 5']);
    expect(provider.charges.size).toBe(3);
  });

  it('answers 422 to a key that comes with another body', async () => {
    const { provider, pay } = await start();
    const key = freshKey();
    expect((await pay(key)).status).toBe(200);
    expect((await pay(key, { amount: 6 })).status).toBe(422);
    expect(provider.charges.size).toBe(1);
  });

  it('does not charge again for a call that died between its charge and its answer', async () => {
    const { provider, requests, pay } = await start();
    const complete = jest.spyOn(requests, 'complete').mockRejectedValueOnce(new Error('The process died.'));
    const key = freshKey();
    expect((await pay(key)).status).toBe(500);
    const repeated = await pay(key);
    expect([repeated.status, await repeated.text()]).toEqual([200, 'charge 1 of 5']);
    expect(provider.charges.size).toBe(1);
    expect(complete).toHaveBeenCalledTimes(2);
  });

  it('refuses the answer of a call that lost its lock to a later one', async () => {
    const { requests } = await start();
    await requests.begin('id', 'hash', 1);
    await requests.begin('id', 'hash', 2);
    expect(await rejection(requests.complete('id', 1, 'late'))).toBeInstanceOf(ConflictException);
    await requests.complete('id', 2, 'answer');
    expect(await requests.begin('id', 'hash', 3)).toMatchObject({ answer: 'answer' });
  });

  it('answers 400 to a request without a key', async () => {
    const { provider, pay } = await start();
    expect((await pay(undefined)).status).toBe(400);
    expect(provider.charges.size).toBe(0);
  });
});

const recipes = shownFiles('test/nest/recipes', 'recipe-');
const blocks = blocksOf('docs/recipes.md');
/** Prisma generates its client by a program that is downloaded. */
const NOT_RUN = './prisma.service.js';

describe('docs/recipes.md', () => {
  it.each(recipes)('shows %s as it runs', (_name, code) => {
    expect(blocks).toContain(code);
  });

  it('shows only tested code, except for Prisma', () => {
    const running = recipes.map(([, code]) => code);
    const others = blocks.filter((block) => !running.includes(block));
    expect(others.filter((block) => !block.includes(NOT_RUN))).toEqual([]);
    expect(blocks).toHaveLength(recipes.length + 1);
  });
});
