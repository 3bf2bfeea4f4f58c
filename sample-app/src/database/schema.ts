/** Participants are seeded once; everything else is what the instances did. */
export const SCHEMA = `
  CREATE TABLE IF NOT EXISTS participants (id INTEGER PRIMARY KEY, name TEXT NOT NULL);
  CREATE TABLE IF NOT EXISTS draws (
    id INTEGER PRIMARY KEY,
    fire INTEGER NOT NULL,
    instance TEXT NOT NULL,
    fencing_token INTEGER NOT NULL
  );
  CREATE TABLE IF NOT EXISTS winners (
    draw_id INTEGER NOT NULL REFERENCES draws (id),
    participant_id INTEGER NOT NULL REFERENCES participants (id)
  );
  CREATE TABLE IF NOT EXISTS work_log (
    id INTEGER PRIMARY KEY,
    subject TEXT NOT NULL,
    instance TEXT NOT NULL,
    started_at REAL NOT NULL,
    ended_at REAL NOT NULL,
    fencing_token INTEGER NOT NULL
  );
`;

/** How many take part. */
export const PARTICIPANTS = 200;
