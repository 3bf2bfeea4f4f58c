import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Global, Inject, Module, type OnApplicationShutdown } from '@nestjs/common';
import { ConfigService } from '@nestjs/config';
import { openDatabase, type Sql } from './open-database.js';
import { SQL } from './sql.token.js';

const openConfigured = (config: ConfigService): Sql =>
  openDatabase(config.get('DATABASE_FILE', join(tmpdir(), 'nestjs-redis-lock-sample.db')));

/** Provides the database connection to every module, and closes it on shutdown. */
@Global()
@Module({ providers: [{ provide: SQL, useFactory: openConfigured, inject: [ConfigService] }], exports: [SQL] })
export class DatabaseModule implements OnApplicationShutdown {
  constructor(@Inject(SQL) private readonly sql: Sql) {}

  // Nest calls this after all locks are released, so work under a lock can still write.
  onApplicationShutdown(): void {
    this.sql.close();
  }
}
