import type Libsql from 'libsql';
import { WINNERS } from '../lottery/lottery.service.js';

interface Drawn {
  readonly fire: number;
  readonly fencing_token: number;
  readonly winners: number;
}

/** What is wrong with these fires in the database: each has to have one draw, of ten winners, with rising tokens. */
export function checkFires(database: Libsql.Database, fires: readonly number[]): string[] {
  const drawn = database
    .prepare(
      `SELECT fire, fencing_token, (SELECT COUNT(DISTINCT participant_id) FROM winners WHERE draw_id = draws.id) AS winners
       FROM draws ORDER BY id`,
    )
    .all() as Drawn[];
  const problems: string[] = [];
  for (const fire of fires) {
    const draws = drawn.filter((draw) => draw.fire === fire);
    if (draws.length !== 1)
      problems.push(`The fire of ${new Date(fire).toISOString()} was drawn ${draws.length} times.`);
    for (const { winners } of draws) if (winners !== WINNERS) problems.push(`A draw has ${winners} winners.`);
  }
  const rising = drawn.every((draw, i) => i === 0 || draw.fencing_token > drawn[i - 1]!.fencing_token);
  if (!rising) problems.push('The fencing tokens do not rise.');
  return problems;
}
