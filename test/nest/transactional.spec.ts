import { Injectable } from '@nestjs/common';
import { DataSource } from 'typeorm';
import { Transactional } from 'typeorm-transactional';
import { Locked } from '../../lib/index.js';
import { closeAll, freshKey, startApp } from '../support/apps/lock-app.js';
import { openDatabase } from './support/open-database.js';

@Injectable()
class Orders {
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

async function start() {
  const log: string[] = [];
  const dataSource = await openDatabase(log);
  await dataSource.query('CREATE TABLE charge (id TEXT)');
  const { app, locks } = await startApp({}, { providers: [Orders, { provide: DataSource, useValue: dataSource }] });
  for (const event of ['acquired', 'released'] as const) locks.events.on(event, () => log.push(event));
  log.length = 0;
  return { log, orders: app.get(Orders) };
}

describe('@Locked and @Transactional', () => {
  afterEach(closeAll);

  it('hold the lock until the transaction is committed when @Locked is above', async () => {
    const { log, orders } = await start();
    await orders.lockedAbove(freshKey());
    expect(log).toEqual(['acquired', 'BEGIN', 'INSERT', 'COMMIT', 'released']);
  });

  it('release the lock before the commit when @Locked is below', async () => {
    const { log, orders } = await start();
    await orders.lockedBelow(freshKey());
    expect(log).toEqual(['BEGIN', 'acquired', 'INSERT', 'released', 'COMMIT']);
  });
});
