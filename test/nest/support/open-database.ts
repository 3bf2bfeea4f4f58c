import { DataSource } from 'typeorm';
import {
  addTransactionalDataSource,
  deleteDataSourceByName,
  initializeTransactionalContext,
  StorageDriver,
} from 'typeorm-transactional';
import { closeLater } from '../../support/apps/lock-app.js';

initializeTransactionalContext({ storageDriver: StorageDriver.ASYNC_LOCAL_STORAGE });

/** A database in memory that notes its queries, with the tables of these entities. It ends with the test. */
export async function openDatabase(log: string[], entities: Function[] = []): Promise<DataSource> {
  const ignore = (): void => undefined;
  const silent = { logQueryError: ignore, logQuerySlow: ignore, logSchemaBuild: ignore, logMigration: ignore };
  const logger = { ...silent, log: ignore, logQuery: (query: string) => void log.push(query.split(' ')[0]!) };
  const dataSource = new DataSource({
    type: 'sqljs',
    entities,
    synchronize: entities.length > 0,
    logging: true,
    logger,
  });
  addTransactionalDataSource(dataSource);
  await dataSource.initialize();
  closeLater({
    close: async () => {
      deleteDataSourceByName('default');
      await dataSource.destroy();
    },
  });
  return dataSource;
}
