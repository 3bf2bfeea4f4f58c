import { Injectable, type OnApplicationShutdown } from '@nestjs/common';
import { ConfigService } from '@nestjs/config';
import type Libsql from 'libsql';
import { instanceName } from '../settings.js';
import { openDatabase } from './open-database.js';

/** The SQL database that all instances share. */
@Injectable()
export class DatabaseService implements OnApplicationShutdown {
  readonly #database: Libsql.Database;

  constructor(config: ConfigService) {
    this.#database = openDatabase(config.getOrThrow<string>('DATABASE_PATH'));
  }

  participants(): number[] {
    return (this.#database.prepare('SELECT id FROM participants').all() as { id: number }[]).map(({ id }) => id);
  }

  /**
   * Records a draw with its winners, all or nothing. The token is compared in the statement that writes: a draw that
   * was begun under an older lock finds a newer one recorded, inserts nothing, and is refused.
   */
  recordDraw(fire: number, fencingToken: number, winners: readonly number[]): boolean {
    const insertDraw = this.#database.prepare(
      `INSERT INTO draws (fire, instance, fencing_token)
       SELECT ?, ?, ? WHERE NOT EXISTS (SELECT 1 FROM draws WHERE fencing_token >= ?)`,
    );
    const insertWinner = this.#database.prepare('INSERT INTO winners (draw_id, participant_id) VALUES (?, ?)');
    const record = this.#database.transaction(() => {
      const draw = insertDraw.run(fire, instanceName, fencingToken, fencingToken);
      if (draw.changes === 0) return false;
      for (const id of winners) insertWinner.run(draw.lastInsertRowid, id);
      return true;
    });
    return record.immediate();
  }

  /** Records when somebody worked on what, so that a test can see overlaps. */
  logWork(subject: string, startedAt: number, fencingToken: number): void {
    const insert =
      'INSERT INTO work_log (subject, instance, started_at, ended_at, fencing_token) VALUES (?, ?, ?, ?, ?)';
    this.#database.prepare(insert).run(subject, instanceName, startedAt, Date.now(), fencingToken);
  }

  onApplicationShutdown(): void {
    this.#database.close();
  }
}
