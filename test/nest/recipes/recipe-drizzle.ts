import { ConflictException } from '@nestjs/common';
import { and, eq, lte, sql } from 'drizzle-orm';
import { type SQLJsDatabase } from 'drizzle-orm/sql-js';
import { integer, sqliteTable, text } from 'drizzle-orm/sqlite-core';
import { currentLock, Locked } from '../../../lib/index.js';

export const account = sqliteTable('account', {
  id: text().primaryKey(),
  balance: integer().notNull(),
  /** The token of the last holder that wrote. It has 16 digits: `bigint` in PostgreSQL and MySQL. */
  fencingToken: integer().notNull(),
});

export class Accounts {
  constructor(private readonly db: SQLJsDatabase) {}

  /** The transaction begins and ends inside the method, so inside the lock. With other drivers, `await` it. */
  @Locked('account:<0>')
  async deposit(id: string, amount: number): Promise<void> {
    const { fencingToken } = currentLock();
    this.db.transaction((tx) => {
      const changed = tx
        .update(account)
        .set({ balance: sql`${account.balance} + ${amount}`, fencingToken })
        .where(and(eq(account.id, id), lte(account.fencingToken, fencingToken)))
        .returning()
        .all();
      if (changed.length !== 1) throw new ConflictException(`The account ${id} was changed by a later call.`);
    });
  }
}
