import 'reflect-metadata';
import { Injectable } from '@nestjs/common';
import { EventEmitter2, EventEmitterModule, OnEvent } from '@nestjs/event-emitter';
import { DataSource } from 'typeorm';
import { Transactional } from 'typeorm-transactional';
import { Locked } from '../../lib/index.js';
import { closeAll, freshKey, startApp } from '../support/apps/lock-app.js';
import { underLock } from './support/places.js';
import { openDatabase } from './support/open-database.js';

afterEach(closeAll);

interface Order {
  readonly id: string;
}

@Injectable()
class Orders {
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
}

describe('a listener with @OnEvent', () => {
  it.each(['above', 'below'])('%s @Locked is called under its lock', async (event) => {
    const { app } = await startApp({}, { imports: [EventEmitterModule.forRoot()], providers: [Orders] });
    expect(await app.get(EventEmitter2).emitAsync(event, { id: '7' })).toEqual([`${event} 7 under order:7`]);
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
