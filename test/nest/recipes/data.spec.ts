import { ConflictException } from '@nestjs/common';
import { drizzle } from 'drizzle-orm/sql-js';
// @ts-expect-error The package has no types.
import initSqlJs from 'sql.js';
import { DataSource } from 'typeorm';
import { LockBusyError } from '../../../lib/index.js';
import { closeAll, freshKey, startApp } from '../../support/apps/lock-app.js';
import { gate } from '../../support/waiting/gate.js';
import { rejection } from '../../support/waiting/rejection.js';
import { openDatabase } from '../support/open-database.js';
import { Cache, Prices, PriceSource } from './recipe-cache.js';
import { account, Accounts as DrizzleAccounts } from './recipe-drizzle.js';
import { Exports } from './recipe-tenants.js';
import { Account, Accounts as TypeormAccounts } from './recipe-typeorm.js';

/** A token that no lock of today has reached. */
const LATER_TOKEN = 9_000_000_000_000_000;

afterEach(closeAll);

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
  it('exports as many at a time as a tenant has seats, and refuses the next one', async () => {
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
      // Those of a tenant with more seats would find a third one free.
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
