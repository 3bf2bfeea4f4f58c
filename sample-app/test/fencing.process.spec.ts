import { join } from 'node:path';
import { eventuallyPasses } from '../../test/support/waiting/eventually.js';
import { openDatabase } from '../src/database/open-database.js';
import { StaleFencingTokenError } from '../src/database/stale-fencing-token.error.js';
import { CatalogueRepository } from '../src/catalogue/catalogue.repository.js';
import { DrawsRepository } from '../src/lottery/draws.repository.js';
import { cleanUp, deploy } from './support/instances.js';
import { later, temporaryFolder } from './support/processes.js';

const winners = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10];

function freshDatabase() {
  const sql = openDatabase(join(temporaryFolder(), 'sample.db'));
  later(() => sql.close());
  return sql;
}

describe('a stale fencing token', () => {
  afterEach(cleanUp);

  it('is refused by the statement that records a draw, with all its winners', () => {
    const sql = freshDatabase();
    const draws = new DrawsRepository(sql);
    draws.record({ fire: 3_000, instance: 'B', fencingToken: 20, winners });
    for (const fencingToken of [19, 20]) {
      const stale = { fire: 3_000, instance: 'A', fencingToken, winners };
      expect(() => draws.record(stale)).toThrow(StaleFencingTokenError);
    }
    expect(sql.prepare('SELECT instance FROM draws').pluck().all()).toEqual(['B']);
    expect(sql.prepare('SELECT * FROM winners').all()).toHaveLength(10);
    draws.record({ fire: 6_000, instance: 'A', fencingToken: 21, winners });
    expect(sql.prepare('SELECT instance FROM draws').pluck().all()).toEqual(['B', 'A']);
  });

  it('is refused by the statement that writes an article', () => {
    const articles = new CatalogueRepository(freshDatabase());
    const article = { sku: 'tea', price: 300, fencingToken: 20 };
    articles.save(article);
    expect(() => articles.save({ ...article, price: 1, fencingToken: 19 })).toThrow(StaleFencingTokenError);
    expect(articles.find('tea')).toEqual(article);
  });

  it('is refused when a running instance writes with it', async () => {
    const { sql, instances } = await deploy(['A']);
    new DrawsRepository(sql).record({ fire: 0, instance: 'future', fencingToken: 2 ** 53 - 1, winners });
    const begun = () => new Set(instances[0]!.reports.map(({ fire }) => fire)).size;
    await eventuallyPasses(() => expect(begun()).toBeGreaterThanOrEqual(2), { timeoutMs: 20_000 });
    expect(instances[0]!.reports.filter(({ outcome }) => outcome === 'drew')).toEqual([]);
    expect(sql.prepare('SELECT instance FROM draws').pluck().all()).toEqual(['future']);
  }, 60_000);
});
