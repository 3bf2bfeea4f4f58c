import type { Sql } from '../../src/database/open-database.js';

/** One piece of work: the ids of the rows of its start and its end. Ids rise in the order of the inserts. */
export interface Span {
  readonly start: number;
  readonly end: number;
  readonly fencingToken: number;
  readonly mode?: 'read' | 'write';
}

interface Row extends Omit<Span, 'start' | 'end'> {
  readonly id: number;
  readonly step: 'start' | 'end';
}

/** Reads all work of `order_events` or `catalogue_events`; every hold has a different fencing token. */
export function spansOf(sql: Sql, table: 'order_events' | 'catalogue_events'): Span[] {
  const mode = table === 'catalogue_events' ? ', mode' : '';
  const select = `SELECT id, step, fencing_token AS "fencingToken"${mode} FROM ${table} ORDER BY id`;
  const rows = sql.prepare(select).all() as Row[];
  return rows
    .filter(({ step }) => step === 'start')
    .map(({ id: start, fencingToken, mode }) => {
      const end = rows.find((row) => row.step === 'end' && row.fencingToken === fencingToken);
      return { start, end: end?.id ?? Infinity, fencingToken, mode };
    });
}

export const overlap = (a: Span, b: Span): boolean => a.start < b.end && b.start < a.end;
