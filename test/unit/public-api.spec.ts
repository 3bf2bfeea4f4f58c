import { readFileSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { type EntryApi, SNAPSHOTS, entries, readApi } from '../../scripts/api-snapshot.mjs';

/**
 * What public signatures mention and users cannot import. Before you add to it, export the type, or mark what mentions it, or
 * the type itself, with "; internal" in its doc comment.
 */
const NOT_EXPORTED: Readonly<Record<string, readonly string[]>> = {
  // Mostly types with which the compiler checks keys and results; their text is also in the snapshot.
  index: [
    'AcceptedBy',
    'CannotCheck',
    'ConfigurableModuleClass',
    'DescriptorOf',
    'Extras',
    'FactoryOptions',
    'IfBusy',
    'IfUnavailable',
    'KeyOfAny',
    'LockScripts',
    'OncePer',
    'PlainPlaceholders',
    'Seen',
    'SkipOptions',
    'SkippedBy',
    'TargetFor',
  ],
  testing: ['OfRedis', 'Overriding'],
};

describe('the public API', () => {
  let api: readonly EntryApi[];
  // Compiles lib, which exceeds the usual limit of a test on a busy machine.
  beforeAll(async () => void (api = await readApi()), 600_000);
  const apiOf = (entry: string) => api.find(({ name }) => name === entry)!;

  describe.each(entries())('of $specifier', ({ name, file }) => {
    it('is the one in test/api: after a wanted change run `node scripts/api-snapshot.mjs`', () => {
      expect(apiOf(name).text).toBe(readFileSync(join(SNAPSHOTS, `${name}.txt`), 'utf8'));
    });

    it('exports the same values at run time, and no others', async () => {
      const exported: object = await import(`../../lib/${file}.js`);
      expect(Object.keys(exported).sort()).toEqual(apiOf(name).values);
    });

    it('has docstrings of at most six lines, whose @throws has only names', () => {
      expect(apiOf(name).flaws).toEqual([]);
    });

    it('mentions only types that users can import', () => {
      const forgotten = new Set(apiOf(name).forgotten.map((type) => type.name));
      expect([...forgotten]).toEqual(NOT_EXPORTED[name] ?? []);
    });
  });

  it('has a snapshot for each entry, and none for others', () => {
    expect(readdirSync(SNAPSHOTS).sort()).toEqual(
      entries()
        .map(({ name }) => `${name}.txt`)
        .sort(),
    );
  });
});
