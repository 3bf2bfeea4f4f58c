import Database from 'libsql';

/** One connection to the SQL database that all instances share. */
export type Sql = Database.Database;

/** `fire` is deliberately not unique: the lock must prevent a second draw, and the runner must be able to see one. */
const SCHEMA = `
  CREATE TABLE IF NOT EXISTS participants (id INTEGER PRIMARY KEY, name TEXT NOT NULL);
  CREATE TABLE IF NOT EXISTS draws (
    id INTEGER PRIMARY KEY, fire INTEGER NOT NULL, instance TEXT NOT NULL, fencing_token INTEGER
  );
  CREATE TABLE IF NOT EXISTS winners (
    draw_id INTEGER NOT NULL REFERENCES draws (id), participant_id INTEGER NOT NULL REFERENCES participants (id)
  );
  CREATE TABLE IF NOT EXISTS reports (
    id INTEGER PRIMARY KEY, instance TEXT NOT NULL, fencing_token INTEGER NOT NULL, draws INTEGER NOT NULL
  );
  CREATE TABLE IF NOT EXISTS catalogue (
    sku TEXT PRIMARY KEY, price INTEGER NOT NULL, fencing_token INTEGER NOT NULL
  );
  CREATE TABLE IF NOT EXISTS order_events (
    id INTEGER PRIMARY KEY, order_id TEXT NOT NULL, step TEXT NOT NULL, instance TEXT NOT NULL,
    fencing_token INTEGER NOT NULL, at INTEGER NOT NULL
  );
  CREATE TABLE IF NOT EXISTS catalogue_events (
    id INTEGER PRIMARY KEY, sku TEXT NOT NULL, mode TEXT NOT NULL, step TEXT NOT NULL, instance TEXT NOT NULL,
    fencing_token INTEGER NOT NULL, at INTEGER NOT NULL
  );
`;

const SEED = `
  INSERT OR IGNORE INTO participants (id, name)
  WITH RECURSIVE numbers (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < 200)
  SELECT n, 'Participant ' || n FROM numbers
`;

/** Opens the database and creates what is missing. Several processes may do so at once. */
export function openDatabase(file: string): Sql {
  const sql = new Database(file, { timeout: 10_000 });
  sql.pragma('journal_mode = WAL');
  const migrate = sql.transaction(() => {
    sql.exec(SCHEMA);
    sql.exec(SEED);
  });
  migrate.immediate();
  return sql;
}
