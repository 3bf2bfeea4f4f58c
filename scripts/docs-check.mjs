// Checks the documents: each ```ts block compiles in a user's project, each link has a target, each option, error and alert has its
// entry, and each log text, file and class that they name exists. Needs a build.
// Each block is a separate module. If it imports from './orders.service.js', that file is the block of the same document that
// exports all of those names, or else a stub in which they are `any`. Code that must not compile says `// @ts-expect-error`.
import { spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, readFileSync, readdirSync, symlinkSync, writeFileSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import process from 'node:process';
import ts from 'typescript';
import { GROUPS } from '../site/pages.mjs';
import { countsOf, report, root, runChecks, withFolder } from './checks.mjs';

/** The options of a new project that uses Nest's decorators. */
// prettier-ignore
const { options: OPTIONS } = ts.convertCompilerOptionsFromJson(
  {
    target: 'ES2022', lib: ['ES2023', 'ESNext.Disposable'], module: 'NodeNext', moduleDetection: 'force', strict: true, skipLibCheck: true,
    experimentalDecorators: true, emitDecoratorMetadata: true, noEmit: true,
    // Users must be able to name every type that an example exports.
    declaration: true,
    // Examples of tests use the globals of a test runner.
    types: ['node', 'jest'], typeRoots: ['node_modules/@types'],
  },
  root,
);

/** Prints one line for each document, and its errors. */
async function checkDocuments() {
  const documents = documentsOf();
  const compiled = await withFolder((folder) => compileBlocks(folder, documents));
  const results = documents.map((document) => {
    const { path, blocks } = document;
    const errors = [...compiled.get(document), ...flawsOf(document)].sort((a, b) => a.line - b.line);
    return report(
      `${path}, ${blocks.length} blocks`,
      errors.map(({ line, text }) => `${path}:${line}: ${text}`),
    );
  });
  const paths = documents.map(({ path }) => path);
  const order = report('the order of the docs site', misplaced(paths));
  const entries = report('an entry for each option, error and alert', missingEntries());
  const logs = report('the texts of the log', unknownLogTexts());
  const rows = report('the defaults and values of the options', await differingRows());
  const glossary = report('the terms of the glossary', flawsOfTerms());
  const named = report('the files that documents name', documents.flatMap(missingFiles));
  return countsOf([...results, checkLinks(paths), order, entries, logs, rows, glossary, named]);
}

const FOR_CONTRIBUTORS = ['CHANGELOG.md', 'CONTRIBUTING.md', 'SECURITY.md', 'CODE_OF_CONDUCT.md', 'scripts/README.md'];

/** Returns the documents with their `path`, `text` (without blocks), `prose` (without any code) and `blocks`. */
function documentsOf() {
  const docs = readdirSync(join(root, 'docs'), { recursive: true, encoding: 'utf8' }).sort();
  const inDocs = docs.filter((path) => path.endsWith('.md')).map((path) => join('docs', path));
  const examples = readdirSync(join(root, 'examples')).map((name) => join('examples', name, 'README.md'));
  return ['README.md', ...FOR_CONTRIBUTORS, join('sample-app', 'README.md'), ...examples, ...inDocs].map((path) => {
    const source = readFileSync(join(root, path), 'utf8');
    const blocks = [];
    const blank = (code) => code.replace(/[^\n]/g, ' ');
    const text = source.replace(/^( *)(`{3,}|~{3,})(.*)\n([^]*?)^\1\2 *$/gm, (all, indent, fence, info, code, at) => {
      if (/^\s*(ts|typescript)\b/.test(info)) blocks.push({ line: lineAt(source, at), code });
      return blank(all);
    });
    const named = [...text.matchAll(/`([^`\n]+)`/g)].map(([, code]) => code);
    return { path, text, prose: text.replace(/(`+)(?!`)[^]*?[^`]\1(?!`)/g, blank), blocks, named };
  });
}

const lineAt = (text, index) => text.slice(0, index).split('\n').length;

function flawsOf({ text, prose }) {
  const find = (where, pattern, flaw) =>
    [...where.matchAll(pattern)].map(({ index }) => ({ line: lineAt(where, index), text: flaw }));
  return [
    // An open block would hide the blocks below it.
    ...find(text, /^ *(?:```|~~~)/gm, 'this block has no end'),
    // remark checks only links in Markdown.
    ...find(prose, /<[^>]+\b(?:href|src)=/g, 'write this link in Markdown'),
  ];
}

/** Compiles all blocks as one project; returns the errors of each document. */
function compileBlocks(folder, documents) {
  // Two levels: the inner folder has the package as it was built, and the outer one has everything else.
  const project = join(folder, 'project');
  mkdirSync(join(project, 'node_modules'), { recursive: true });
  symlinkSync(join(root, 'node_modules'), join(folder, 'node_modules'), 'junction');
  symlinkSync(root, join(project, 'node_modules', 'nestjs-redis-lock'), 'junction');
  writeFileSync(join(project, 'package.json'), '{ "type": "module" }');

  const files = new Map(documents.flatMap((document, index) => writeBlocks(join(project, `${index}`), document)));
  const errors = new Map(documents.map((document) => [document, []]));
  for (const { file, start, messageText } of ts.getPreEmitDiagnostics(ts.createProgram([...files.keys()], OPTIONS))) {
    const text = ts.flattenDiagnosticMessageText(messageText, '\n    ');
    const document = files.get(file?.fileName);
    if (!document) throw new Error(`${file?.fileName ?? 'The project'}: ${text}`);
    errors.get(document).push({ line: file.getLineAndCharacterOfPosition(start).line + 1, text });
  }
  return errors;
}

/** Writes the blocks of a document, with the line numbers that they have there, and the files that they import. */
function writeBlocks(folder, document) {
  mkdirSync(folder, { recursive: true });
  const blocks = document.blocks.map(({ line, code }) => ({ file: join(folder, `line-${line}`), line, code }));
  const modules = blocks.map(({ file, line, code }) => {
    writeFileSync(`${file}.ts`, '\n'.repeat(line) + code);
    return { file, ...importsAndExports(code) };
  });
  const imports = modules.flatMap(({ imported }) => imported);
  for (const path of new Set(imports.map((one) => one.path))) {
    const names = [...new Set(imports.filter((one) => one.path === path).map(({ name }) => name))];
    const stands = modules.find(({ exported }) => names.every((name) => exported.has(name)));
    const stub = names.map((name) => `export declare const ${name}: any;\nexport type ${name} = any;\n`).join('');
    const file = resolve(folder, path.replace(/\.js$/, '.ts'));
    mkdirSync(dirname(file), { recursive: true });
    writeFileSync(file, stands ? `export * from '${stands.file}.js';\n` : stub);
  }
  return blocks.map(({ file }) => [`${file}.ts`, document]);
}

function importsAndExports(code) {
  const { statements } = ts.createSourceFile('block.ts', code, ts.ScriptTarget.Latest);
  const imported = statements.filter(ts.isImportDeclaration).flatMap(({ moduleSpecifier, importClause }) => {
    const elements = importClause?.namedBindings?.elements ?? [];
    const names = elements.map(({ name, propertyName }) => (propertyName ?? name).text);
    return moduleSpecifier.text.startsWith('./') ? names.map((name) => ({ path: moduleSpecifier.text, name })) : [];
  });
  const isExported = (node) => node.modifiers?.some(({ kind }) => kind === ts.SyntaxKind.ExportKeyword);
  const named = statements.filter(isExported).flatMap((node) => node.declarationList?.declarations ?? [node]);
  return { imported, exported: new Set(named.map(({ name }) => name?.text)) };
}

/** Checks that each link within the repository leads to an existing file and heading; prints those that do not. */
function checkLinks(paths) {
  const remark = join(root, 'node_modules', 'remark-cli', 'cli.js');
  const rules = ['--frail', '--quiet', '--no-stdout', '--no-color', '--use', 'remark-validate-links=repository:false'];
  const { status } = spawnSync(process.execPath, [remark, ...rules, ...paths], { cwd: root, stdio: 'inherit' });
  return report('the links of all documents', status === 0 ? [] : ['see above']);
}

/** The pages of `docs` that the docs site does not link exactly once, and those that it lists but that do not exist. */
function misplaced(paths) {
  const inDocs = paths.filter((path) => /^docs.(?!adr)/.test(path));
  const listed = GROUPS.flatMap(({ pages }) => pages.map(([file]) => join('docs', `${file}.md`)));
  const countIn = (all, path) => all.filter((one) => one === path).length;
  return [...new Set([...inDocs, ...listed])]
    .filter((path) => countIn(listed, path) !== 1 || countIn(inDocs, path) !== 1)
    .map(
      (path) => `site/pages.mjs lists ${path} ${countIn(listed, path)} times; it exists ${countIn(inDocs, path)} times`,
    );
}

/** The tables of options in lib, each with the section of docs/options.md that shows its defaults and values. */
const TABLES = [
  ['redis-lock.options', 'MODULE_OPTIONS', 'RedisLockModuleOptions'],
  ['core/lock.options', 'LOCK_OPTIONS', 'LockOptions'],
  ['interceptor/locked.options', 'LOCKED_OPTIONS', 'LockedOptions'],
];

/** The rows that differ from their table. A default that stands for no value (0, empty) may be described in words. */
async function differingRows() {
  const flaws = TABLES.map(async ([file, name, type]) => {
    const { [name]: table } = await import(`../dist/esm/${file}.js`);
    const { text } = sectionsOf('options.md').find(({ title }) => title.includes(`\`${type}\``));
    return Object.entries(table).flatMap(([option, { kind, default: value }]) => {
      const row = text.split('\n').find((line) => line.startsWith(`| \`${option}\` |`));
      const [, , shown, values] = row?.split(/ ?\| /) ?? [];
      const words = typeof value === 'string' ? `'${value}'` : String(value).replace(/\B(?=(\d{3})+$)/g, '_');
      const isDefault = !row || shown.startsWith(`\`${words}\``) || (!value && !shown.startsWith('`'));
      if (!row || (isDefault && values === kind.expected)) return [];
      return `docs/options.md: expected ${type}.${option} to be | \`${words}\` | ${kind.expected} |`;
    });
  });
  return (await Promise.all(flaws)).flat();
}

/** Entries whose options and errors need one here; docs/testing.md has those of the tests. */
const ENTRIES = ['index', 'observability/terminus', 'observability/prometheus', 'observability/opentelemetry'];
/** The options of a connection are those of ioredis; those of `forRootAsync` are Nest's. */
const OTHERS = /^(Redis(Cluster|Connection)|RedisLockModuleAsync)Options$/;
/** A sentence describes them. */
const IN_SENTENCES = /^LeaderHooks\./;

/** What docs/options.md has no row for, and what docs/errors.md and docs/runbooks.md do not explain, one sentence each. */
function missingEntries() {
  const files = ENTRIES.map((entry) => join(root, 'dist', 'esm', `${entry}.d.ts`));
  const program = ts.createProgram(files, { module: ts.ModuleKind.NodeNext, skipLibCheck: true });
  const checker = program.getTypeChecker();
  const types = files
    .flatMap((file) => checker.getExportsOfModule(checker.getSymbolAtLocation(program.getSourceFile(file))))
    .map((symbol) => (symbol.flags & ts.SymbolFlags.Alias ? checker.getAliasedSymbol(symbol) : symbol));
  const typesOf = (pattern) => types.filter(({ name }) => pattern.test(name));
  const declared = (symbol) => checker.getDeclaredTypeOfSymbol(symbol);

  const options = typesOf(/Options$/).filter(({ name }) => !OTHERS.test(name));
  const owned = new Set(options.flatMap((symbol) => declared(symbol).getProperties().map(ownerOf)));
  const rows = sectionsOf('options.md');
  const hasRow = ([owner, option]) =>
    rows.some(({ title, text }) => title.includes(`\`${owner}\``) && text.includes(`\n| \`${option}\` |`));

  const errors = sectionsOf('errors.md');
  const words = typesOf(/^(LockErrorCode|LockLostReason)$/).flatMap((symbol) =>
    declared(symbol).types.map((t) => t.value),
  );
  const alerts = [...readFileSync(join(root, 'docs', 'observability.md'), 'utf8').matchAll(/- alert: (\w+)/g)];
  const runbooks = sectionsOf('runbooks.md').map(({ title }) => title);
  return [
    ...alerts
      .filter(([, name]) => !runbooks.includes(name))
      .map(([, name]) => `docs/runbooks.md has no section for ${name}`),
    ...[...owned]
      .filter((path) => !IN_SENTENCES.test(path) && !hasRow(path.split('.')))
      .map((path) => `docs/options.md has no row for ${path}`),
    ...typesOf(/Error$/)
      .filter(({ name }) => !errors.some(({ title }) => title === `\`${name}\``))
      .map(({ name }) => `docs/errors.md has no section for ${name}`),
    ...words
      .filter((word) => !errors.some(({ text }) => text.includes(`\`${word}\``)))
      .map((word) => `docs/errors.md does not name ${word}`),
  ];
}

/** The interface in which an option is written, also if others inherit it. */
function ownerOf(property) {
  const owner = property.declarations[0].parent;
  return `${owner.name?.text ?? owner.parent.name.text}.${property.name}`;
}

/** The terms that have two meanings, and the names of classes and types that the code does not declare. */
function flawsOfTerms() {
  const rows = [
    ...readFileSync(join(root, 'docs', 'glossary.md'), 'utf8').matchAll(/^\| (?!word|---)(.+?) \| (.+) \|$/gm),
  ];
  const terms = rows.flatMap(([, words]) => words.split(', '));
  const names = rows.flatMap(([, , meaning]) => [...meaning.matchAll(/`([A-Z]\w+)`/g)].map(([, name]) => name));
  const code = sourcesOf('lib').join('\n');
  const isDeclared = (name) => new RegExp(`\\b(?:class|interface|type) ${name}\\b`).test(code);
  return [
    ...(terms.length === 0 ? ['docs/glossary.md has no rows'] : []),
    ...terms.filter((term, i) => terms.indexOf(term) !== i).map((term) => `docs/glossary.md explains "${term}" twice`),
    ...names.filter((name) => !isDeclared(name)).map((name) => `docs/glossary.md: lib declares no ${name}`),
  ];
}

/** The files and folders of the library that a document for contributors names and that do not exist. */
function missingFiles({ path, named }) {
  const paths = named.filter((one) => /^(?:lib|test|scripts)\/[\w./-]+$/.test(one));
  if (path.startsWith(join('docs', 'adr')) || path === 'CHANGELOG.md') return [];
  return paths.filter((one) => !existsSync(join(root, one))).map((one) => `${path}: no such file: ${one}`);
}

const sourcesOf = (folder) =>
  readdirSync(join(root, folder), { recursive: true, encoding: 'utf8' })
    .filter((path) => path.endsWith('.ts'))
    .map((path) => readFileSync(join(root, folder, path), 'utf8'));

/** The rows of docs/log-messages.md whose text is not in the code; `…` stands for any text. */
function unknownLogTexts() {
  const code = sourcesOf('lib')
    .join('\n')
    // A text may be written in several pieces.
    .replace(/['`] \+\s+['`]/g, '')
    .replaceAll('\\`', '`');
  const page = readFileSync(join(root, 'docs', 'log-messages.md'), 'utf8');
  const texts = [...page.matchAll(/^\| (?:warn|error|debug)(?: ≤)? \| (`+)(.+?)\1 \|/gm)].map(([, , text]) => text);
  if (texts.length === 0) return ['docs/log-messages.md has no rows'];
  const isUnknown = (piece) => !code.includes(piece);
  return texts.flatMap((text) =>
    text
      .split('…')
      .filter(isUnknown)
      .map((piece) => `no log text has "${piece}": ${text}`),
  );
}

/** The title and the text of each section of a page. */
function sectionsOf(page) {
  const sections = readFileSync(join(root, 'docs', page), 'utf8').split(/^## /m);
  return sections.map((text) => ({ title: text.split('\n', 1)[0], text }));
}

await runChecks(checkDocuments);
