import { Inject, Injectable } from '@nestjs/common';
import type { Sql } from '../database/open-database.js';
import { SQL } from '../database/sql.token.js';
import { StaleFencingTokenError } from '../database/stale-fencing-token.error.js';

/** One finished draw. */
export interface Draw {
  /** The nominal time of the fire, in milliseconds. */
  readonly fire: number;
  readonly instance: string;
  /** Null without a lock: nothing is compared, so nothing is refused. */
  readonly fencingToken: number | null;
  readonly winners: readonly number[];
}

/** Refuses a stale token. Check and write are one statement, so nothing can come between them. */
const INSERT_DRAW = `
  INSERT INTO draws (fire, instance, fencing_token)
  SELECT @fire, @instance, @fencingToken
  WHERE NOT EXISTS (SELECT 1 FROM draws WHERE fencing_token >= @fencingToken)
`;

/** Reads the participants and stores the draws. */
@Injectable()
export class DrawsRepository {
  constructor(@Inject(SQL) private readonly sql: Sql) {}

  participants(): number[] {
    return this.sql.prepare('SELECT id FROM participants ORDER BY id').pluck().all() as number[];
  }

  /**
   * Records a draw with all its winners, or records nothing.
   * @throws StaleFencingTokenError when a later holder of the lock has already recorded a draw
   */
  record(draw: Draw): void {
    const { fire, instance, fencingToken } = draw;
    const insertWinner = this.sql.prepare('INSERT INTO winners (draw_id, participant_id) VALUES (?, ?)');
    const insert = this.sql.transaction(() => {
      const { changes, lastInsertRowid } = this.sql.prepare(INSERT_DRAW).run({ fire, instance, fencingToken });
      if (changes === 0) throw new StaleFencingTokenError(`The draw of ${instance}`, fencingToken);
      for (const participant of draw.winners) insertWinner.run(lastInsertRowid, participant);
    });
    insert.immediate();
  }
}
