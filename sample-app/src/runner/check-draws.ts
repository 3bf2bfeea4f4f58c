import type { Sql } from '../database/open-database.js';
import { timeOfDay } from '../lottery/fire-report.js';
import { PERIOD_MS } from '../lottery/lottery.settings.js';

const WINNERS = 10;

interface DrawRow {
  readonly fire: number;
  readonly instance: string;
  readonly fencingToken: number | null;
  readonly winners: number;
  readonly differentWinners: number;
}

/** All draws between two fires, in the order of recording. */
const SELECT = `
  SELECT draws.fire, draws.instance, draws.fencing_token AS "fencingToken",
    COUNT(participant_id) AS "winners", COUNT(DISTINCT participant_id) AS "differentWinners"
  FROM draws LEFT JOIN winners ON winners.draw_id = draws.id
  WHERE draws.fire BETWEEN ? AND ?
  GROUP BY draws.id ORDER BY draws.id
`;

/**
 * Returns, in sentences, what is wrong with the draws from the first to the last of these fires. Empty if each fire was drawn
 * once. With `stoodStill`, missed fires do not count.
 */
export function checkDraws(sql: Sql, seen: readonly number[], stoodStill = false): string[] {
  const [first, last] = [Math.min(...seen), Math.max(...seen)];
  const rows = sql.prepare(SELECT).all(first, last) as DrawRow[];
  const fires: number[] = [];
  for (let fire = first; fire <= last; fire += PERIOD_MS) {
    if (!stoodStill || seen.includes(fire) || rows.some((row) => row.fire === fire)) fires.push(fire);
  }
  return [
    ...fires.flatMap((fire) => checkCount(fire, rows)),
    ...rows.flatMap(checkWinners),
    ...rows.slice(1).flatMap((row, index) => checkToken(row, rows[index]!)),
  ];
}

function checkCount(fire: number, rows: readonly DrawRow[]): string[] {
  const instances = rows.filter((row) => row.fire === fire).map((row) => row.instance);
  if (instances.length === 1) return [];
  const who = instances.length === 0 ? '' : `, by ${instances.join(', ')}`;
  return [`The fire of ${timeOfDay(fire)} was drawn ${instances.length} times${who}.`];
}

function checkWinners({ fire, instance, winners, differentWinners }: DrawRow): string[] {
  if (winners === WINNERS && differentWinners === WINNERS) return [];
  return [`${instance} drew ${winners} winners at ${timeOfDay(fire)}, of which ${differentWinners} differ.`];
}

function checkToken(row: DrawRow, before: DrawRow): string[] {
  if (row.fencingToken !== null && before.fencingToken !== null && row.fencingToken > before.fencingToken) return [];
  return [`The fencing token ${row.fencingToken} of ${row.instance} does not exceed the one before.`];
}
