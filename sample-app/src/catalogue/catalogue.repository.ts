import { Inject, Injectable } from '@nestjs/common';
import type { Sql } from '../database/open-database.js';
import { SQL } from '../database/sql.token.js';
import { StaleFencingTokenError } from '../database/stale-fencing-token.error.js';
import { INSTANCE } from '../instance.js';

/** One article, with the fencing token of the lock under which it was written. */
export interface Article {
  readonly sku: string;
  readonly price: number;
  readonly fencingToken: number;
}

const SELECT = 'SELECT sku, price, fencing_token AS "fencingToken" FROM catalogue WHERE sku = ?';

/** Only a later holder of the lock may overwrite. */
const UPSERT = `
  INSERT INTO catalogue (sku, price, fencing_token) VALUES (@sku, @price, @fencingToken)
  ON CONFLICT (sku) DO UPDATE SET price = excluded.price, fencing_token = excluded.fencing_token
  WHERE excluded.fencing_token > catalogue.fencing_token
`;

const INSERT_EVENT = `
  INSERT INTO catalogue_events (sku, mode, step, instance, fencing_token, at)
  VALUES (@sku, @mode, @step, @instance, @fencingToken, @at)
`;

/** Stores the articles, and a log of who read or wrote them. */
@Injectable()
export class CatalogueRepository {
  constructor(@Inject(SQL) private readonly sql: Sql) {}

  find(sku: string): Article | undefined {
    return (this.sql.prepare(SELECT).all(sku) as Article[])[0];
  }

  /** @throws StaleFencingTokenError when a later holder of the lock has already written */
  save({ sku, price, fencingToken }: Article): void {
    const { changes } = this.sql.prepare(UPSERT).run({ sku, price, fencingToken });
    if (changes === 0) throw new StaleFencingTokenError(`The price of ${sku}`, fencingToken);
  }

  addEvent(sku: string, mode: 'read' | 'write', step: 'start' | 'end', fencingToken: number): void {
    this.sql.prepare(INSERT_EVENT).run({ sku, mode, step, instance: INSTANCE, fencingToken, at: Date.now() });
  }
}
