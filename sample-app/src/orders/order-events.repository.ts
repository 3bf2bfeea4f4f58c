import { Inject, Injectable } from '@nestjs/common';
import type { Sql } from '../database/open-database.js';
import { SQL } from '../database/sql.token.js';
import { INSTANCE } from '../instance.js';

const INSERT = `
  INSERT INTO order_events (order_id, step, instance, fencing_token, at)
  VALUES (@orderId, @step, @instance, @fencingToken, @at)
`;

/** Logs who worked on an order and when, so that a test can see what ran at the same time. */
@Injectable()
export class OrderEventsRepository {
  constructor(@Inject(SQL) private readonly sql: Sql) {}

  add(orderId: string, step: 'start' | 'end' | 'stopped', fencingToken: number): void {
    this.sql.prepare(INSERT).run({ orderId, step, instance: INSTANCE, fencingToken, at: Date.now() });
  }
}
