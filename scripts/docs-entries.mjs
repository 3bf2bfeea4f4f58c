// Checks that docs/options.md has a row for each option, and docs/errors.md a section for each error. Needs a build.
import { readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import ts from 'typescript';

const root = dirname(dirname(fileURLToPath(import.meta.url)));
const dist = join(root, 'dist', 'esm');

/** The tests are told about in docs/testing.md. */
const ENTRIES = ['index', 'observability/terminus', 'observability/prometheus', 'observability/opentelemetry'];
/** The options of a connection are those of ioredis; those of `forRootAsync` are Nest's. */
const OTHERS = /^(Redis(Client|Cluster|Connection|Shared)|RedisLockModuleAsync)Options$/;
/** Told in a sentence. */
const IN_SENTENCES = ['WaitUntilFreeOptions', 'LeaderHooks'];

/** Returns what is missing, one sentence each. */
export function missingEntries() {
  const files = ENTRIES.map((entry) => join(dist, `${entry}.d.ts`));
  const program = ts.createProgram(files, { module: ts.ModuleKind.NodeNext, skipLibCheck: true });
  const checker = program.getTypeChecker();
  const exported = files.flatMap((file) =>
    checker.getExportsOfModule(checker.getSymbolAtLocation(program.getSourceFile(file))),
  );
  const types = exported.map((symbol) =>
    symbol.flags & ts.SymbolFlags.Alias ? checker.getAliasedSymbol(symbol) : symbol,
  );
  return [...missingOptions(checker, types), ...missingErrors(checker, types)];
}

function missingOptions(checker, types) {
  const sections = sectionsOf('options.md');
  const options = types.filter(({ name }) => name.endsWith('Options') && !OTHERS.test(name));
  const owned = options.flatMap((symbol) => checker.getDeclaredTypeOfSymbol(symbol).getProperties().map(ownerOf));
  return [...new Set(owned)]
    .filter((path) => !IN_SENTENCES.includes(path.split('.')[0]))
    .filter((path) => {
      const [owner, option] = path.split('.');
      return !sections.find(({ title }) => title.includes(`\`${owner}\``))?.text.includes(`\n| \`${option}\` |`);
    })
    .map((path) => `docs/options.md has no row for ${path}`);
}

/** The interface in which an option is written, also if others inherit it. */
function ownerOf(property) {
  const owner = property.declarations[0].parent;
  return `${owner.name?.text ?? owner.parent.name.text}.${property.name}`;
}

function missingErrors(checker, types) {
  const sections = sectionsOf('errors.md');
  const errors = types.filter(({ name }) => name.endsWith('Error'));
  const text = readFileSync(join(root, 'docs', 'errors.md'), 'utf8');
  const words = types
    .filter(({ name }) => name === 'LockErrorCode' || name === 'LockLostReason')
    .flatMap((symbol) => checker.getDeclaredTypeOfSymbol(symbol).types.map(({ value }) => value));
  return [
    ...errors
      .filter(({ name }) => !sections.some(({ title }) => title === `\`${name}\``))
      .map(({ name }) => `docs/errors.md has no section for ${name}`),
    ...words.filter((word) => !text.includes(`\`${word}\``)).map((word) => `docs/errors.md does not name ${word}`),
  ];
}

/** The title and the text of each section of a page. */
function sectionsOf(page) {
  const text = readFileSync(join(root, 'docs', page), 'utf8');
  return text.split(/^## /m).map((section) => ({ title: section.split('\n', 1)[0], text: section }));
}
