import 'reflect-metadata';
import { Injectable } from '@nestjs/common';
import { EventEmitter2, EventEmitterModule, OnEvent } from '@nestjs/event-emitter';
import { DataSource } from 'typeorm';
import { Transactional } from 'typeorm-transactional';
import { Locked } from '../../lib/index.js';
import { eventually } from '../support/waiting/eventually.js';
import { closeAll, freshKey, startApp } from '../support/apps/lock-app.js';
import { untilWaiting } from '../support/waiting/waiters.js';
import { closePlaces, gateOfTest, SideBySide, underLock } from './support/places.js';
import { openDatabase } from './support/open-database.js';

afterEach(closeAll);

interface Order {
  readonly id: string;
}

/** The work of the listeners of one app. */
@Injectable()
class Work extends SideBySide {
  until: Promise<void> = Promise.resolve();
}

@Injectable()
class Orders {
  constructor(readonly work: Work) {}

  @OnEvent('above')
  @Locked('order:<0.id>')
  async above(order: Order): Promise<string> {
    return underLock(`above ${order.id}`);
  }

  @Locked('order:<0.id>')
  @OnEvent('below')
  async below(order: Order): Promise<string> {
    return underLock(`below ${order.id}`);
  }

  @OnEvent('slow')
  @Locked('order:<0.id>')
  async slow(order: Order): Promise<string> {
    return this.work.run(async () => {
      await this.work.until;
      return underLock(order.id);
    });
  }
}

async function start(keyPrefix = `${freshKey('events')}:`) {
  const imports = [EventEmitterModule.forRoot()];
  const app = await startApp({ keyPrefix }, { imports, providers: [Work, Orders] });
  return { ...app, events: app.app.get(EventEmitter2), work: app.app.get(Work) };
}

afterEach(closePlaces);

describe('a listener with @OnEvent', () => {
  it.each(['above', 'below'])('%s @Locked is called under its lock', async (event) => {
    const { events } = await start();
    expect(await events.emitAsync(event, { id: '7' })).toEqual([`${event} 7 under order:7`]);
  });

  it('excludes the same key in this app and in another one, and runs concurrently with other keys', async () => {
    const prefix = `${freshKey('events')}:`;
    const [a, b] = [await start(prefix), await start(prefix)];
    const until = gateOfTest();
    a.work.until = b.work.until = until.opened;
    const emitted = [a, a, b].map(({ events }) => events.emitAsync('slow', { id: '7' }));
    emitted.push(b.events.emitAsync('slow', { id: '8' }));
    await untilWaiting(a, 'order:7', 2);
    await eventually(() => a.work.running + b.work.running === 2);
    until.open();
    expect((await Promise.all(emitted)).flat()).toEqual(['7', '7', '7', '8'].map((id) => `${id} under order:${id}`));
    expect(a.work.total + b.work.total).toBe(4);
  });
});

@Injectable()
class StoredOrders {
  constructor(private readonly dataSource: DataSource) {}

  @Locked('order:<0>')
  @Transactional()
  async lockedAbove(id: string): Promise<void> {
    await this.dataSource.query('INSERT INTO charge VALUES (?)', [id]);
  }

  @Transactional()
  @Locked('order:<0>')
  async lockedBelow(id: string): Promise<void> {
    await this.dataSource.query('INSERT INTO charge VALUES (?)', [id]);
  }
}

async function startStored() {
  const log: string[] = [];
  const dataSource = await openDatabase(log);
  await dataSource.query('CREATE TABLE charge (id TEXT)');
  const { app, locks } = await startApp(
    {},
    { providers: [StoredOrders, { provide: DataSource, useValue: dataSource }] },
  );
  for (const event of ['acquired', 'released'] as const) locks.events.on(event, () => log.push(event));
  log.length = 0;
  return { log, orders: app.get(StoredOrders) };
}

describe('@Locked and @Transactional', () => {
  it('hold the lock until the transaction is committed when @Locked is above', async () => {
    const { log, orders } = await startStored();
    await orders.lockedAbove(freshKey());
    expect(log).toEqual(['acquired', 'BEGIN', 'INSERT', 'COMMIT', 'released']);
  });

  it('release the lock before the commit when @Locked is below', async () => {
    const { log, orders } = await startStored();
    await orders.lockedBelow(freshKey());
    expect(log).toEqual(['BEGIN', 'acquired', 'INSERT', 'released', 'COMMIT']);
  });
});
