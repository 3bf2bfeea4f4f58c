import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Global, Inject, Module, type OnApplicationShutdown } from '@nestjs/common';
import { ConfigService } from '@nestjs/config';
import { openDatabase, type Sql } from './open-database.js';
import { SQL } from './sql.token.js';

const openConfigured = (config: ConfigService): Sql =>
  openDatabase(config.get('DATABASE_FILE', join(tmpdir(), 'nestjs-redis-lock-sample.db')));

/** Gives every module the connection to the database, and closes it at the end. */
@Global()
@Module({ providers: [{ provide: SQL, useFactory: openConfigured, inject: [ConfigService] }], exports: [SQL] })
export class DatabaseModule implements OnApplicationShutdown {
  constructor(@Inject(SQL) private readonly sql: Sql) {}

  // After all locks were given back: the last work under a lock may still write.
  onApplicationShutdown(): void {
    this.sql.close();
  }
}
