import { Inject, Injectable } from '@nestjs/common';
import type { Sql } from '../database/open-database.js';
import { SQL } from '../database/sql.token.js';
import { StaleFencingTokenError } from '../database/stale-fencing-token.error.js';
import { INSTANCE } from '../instance.js';

/** Refuses a former leader. Check and write are one statement, so nothing can come between them. */
const INSERT = `
  INSERT INTO reports (instance, fencing_token, draws)
  SELECT @instance, @fencingToken, (SELECT COUNT(*) FROM draws)
  WHERE NOT EXISTS (SELECT 1 FROM reports WHERE fencing_token > @fencingToken)
`;

/** Stores how many draws there were. */
@Injectable()
export class ReportsRepository {
  constructor(@Inject(SQL) private readonly sql: Sql) {}

  /** @throws StaleFencingTokenError when a later leader has already written a report */
  add(fencingToken: number): void {
    const { changes } = this.sql.prepare(INSERT).run({ instance: INSTANCE, fencingToken });
    if (changes === 0) throw new StaleFencingTokenError(`The report of ${INSTANCE}`, fencingToken);
  }
}
