// Checks the documents: each ```ts block compiles in a user's project, and each link has a target. Needs a build.
// A block is a module of its own. If it imports from './orders.service.js', that file is the block of the same document that
// exports all of those names, or else a stub in which they are `any`. Code that must not compile says `// @ts-expect-error`.
import { spawnSync } from 'node:child_process';
import {
  mkdirSync,
  mkdtempSync,
  readFileSync,
  readdirSync,
  realpathSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join, resolve } from 'node:path';
import process from 'node:process';
import { fileURLToPath } from 'node:url';
import ts from 'typescript';
import { GROUPS } from '../site/pages.mjs';
import { countsOf, runIfStarted } from './checks.mjs';
import { missingEntries } from './docs-entries.mjs';

const root = dirname(dirname(fileURLToPath(import.meta.url)));

/** The options of a new project that uses Nest's decorators. */
const OPTIONS = {
  target: ts.ScriptTarget.ES2022,
  lib: ['lib.es2023.d.ts', 'lib.esnext.disposable.d.ts'],
  module: ts.ModuleKind.NodeNext,
  moduleResolution: ts.ModuleResolutionKind.NodeNext,
  moduleDetection: ts.ModuleDetectionKind.Force,
  strict: true,
  experimentalDecorators: true,
  emitDecoratorMetadata: true,
  skipLibCheck: true,
  // Users must be able to name every type that an example exports.
  declaration: true,
  noEmit: true,
  // Examples of tests use the globals of a test runner.
  types: ['node', 'jest'],
};

/** Prints one line for each document, and its errors; returns `{ passed, failed }`. */
export function checkDocuments() {
  const documents = documentsOf(root);
  const folder = realpathSync(mkdtempSync(join(tmpdir(), 'docs-check-')));
  try {
    const compiled = compileBlocks(folder, documents);
    const results = documents.map((document) => {
      const errors = [...compiled.get(document), ...openBlocks(document), ...htmlLinks(document)];
      console.log(`${errors.length === 0 ? 'ok    ' : 'FAILED'} ${document.path}, ${document.blocks.length} blocks`);
      for (const { line, text } of errors.sort((a, b) => a.line - b.line))
        console.log(`  ${document.path}:${line}: ${text}`);
      return errors.length === 0;
    });
    return countsOf([...results, checkLinks(documents), checkOrder(documents), checkEntries()]);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

const FOR_CONTRIBUTORS = ['CHANGELOG.md', 'CONTRIBUTING.md', 'SECURITY.md', 'CODE_OF_CONDUCT.md'];

/** Returns the documents with their `path`, `text`, `prose` (the text with code blanked out) and `blocks`. */
function documentsOf(folder) {
  const docs = readdirSync(join(folder, 'docs'), { recursive: true, encoding: 'utf8' }).sort();
  const inDocs = docs.filter((path) => path.endsWith('.md')).map((path) => join('docs', path));
  const examples = readdirSync(join(folder, 'examples')).map((name) => join('examples', name, 'README.md'));
  const apps = [join('sample-app', 'README.md'), ...examples];
  const paths = ['README.md', ...FOR_CONTRIBUTORS, ...apps, ...inDocs];
  return paths.map((path) => parse(path, readFileSync(join(folder, path), 'utf8')));
}

function parse(path, text) {
  const blocks = [];
  const blank = (code) => code.replace(/[^\n]/g, ' ');
  const withoutBlocks = text.replace(
    /^( *)(`{3,}|~{3,})(.*)\n([^]*?)^\1\2 *$/gm,
    (all, indent, fence, info, code, at) => {
      const line = lineAt(text, at);
      if (/^\s*(ts|typescript)\b/.test(info)) blocks.push({ line, code });
      return blank(all);
    },
  );
  const prose = withoutBlocks.replace(/(`+)(?!`)[^]*?[^`]\1(?!`)/g, blank);
  return { path, text: withoutBlocks, prose, blocks };
}

function lineAt(text, index) {
  return text.slice(0, index).split('\n').length;
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
  const program = ts.createProgram([...files.keys()], {
    ...OPTIONS,
    typeRoots: [join(root, 'node_modules', '@types')],
  });
  const errors = new Map(documents.map((document) => [document, []]));
  for (const { file, start, messageText } of ts.getPreEmitDiagnostics(program)) {
    const message = ts.flattenDiagnosticMessageText(messageText, '\n    ');
    if (!files.has(file?.fileName)) throw new Error(`${file?.fileName ?? 'The project'}: ${message}`);
    const line = file.getLineAndCharacterOfPosition(start).line + 1;
    errors.get(files.get(file.fileName)).push({ line, text: message });
  }
  return errors;
}

/** Writes the blocks of a document, with the line numbers that they have there, and the files that they import. */
function writeBlocks(folder, document) {
  mkdirSync(folder, { recursive: true });
  const blocks = document.blocks.map(({ line, code }) => ({
    name: `line-${line}`,
    code,
    ...importsAndExports(code),
    line,
  }));
  for (const { name, code, line } of blocks) writeFileSync(join(folder, `${name}.ts`), '\n'.repeat(line) + code);
  for (const { path, names } of importedFiles(blocks)) {
    const stands = blocks.find(({ exported }) => names.every((name) => exported.has(name)));
    const stub = names.map((name) => `export declare const ${name}: any;\nexport type ${name} = any;\n`).join('');
    const file = join(folder, path.replace(/\.js$/, '.ts'));
    mkdirSync(dirname(file), { recursive: true });
    writeFileSync(file, stands ? `export * from '${resolve(folder, stands.name)}.js';\n` : stub);
  }
  return blocks.map(({ name }) => [join(folder, `${name}.ts`), document]);
}

/** Returns the relative imports of all blocks by file, with all names that are imported from it. */
function importedFiles(blocks) {
  const files = new Map();
  for (const { path, name } of blocks.flatMap(({ imported }) => imported)) {
    files.set(path, (files.get(path) ?? new Set()).add(name));
  }
  return [...files].map(([path, names]) => ({ path, names: [...names] }));
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

/** A block that is never closed would hide the blocks below it. */
function openBlocks({ text }) {
  const fences = [...text.matchAll(/^ *(?:```|~~~)/gm)];
  return fences.map(({ index }) => ({ line: lineAt(text, index), text: 'this block has no end' }));
}

/** remark checks only links in Markdown. */
function htmlLinks({ prose }) {
  const links = [...prose.matchAll(/<[^>]+\b(?:href|src)=/g)];
  return links.map(({ index }) => ({ line: lineAt(prose, index), text: 'write this link in Markdown' }));
}

/** Checks that each link within the repository leads to an existing file and heading; prints those that do not. */
function checkLinks(documents) {
  const remark = join(root, 'node_modules', 'remark-cli', 'cli.js');
  const rules = ['--frail', '--quiet', '--no-stdout', '--no-color', '--use', 'remark-validate-links=repository:false'];
  const paths = documents.map(({ path }) => path);
  const { status } = spawnSync(process.execPath, [remark, ...rules, ...paths], { cwd: root, stdio: 'inherit' });
  console.log(`${status === 0 ? 'ok    ' : 'FAILED'} the links of all documents`);
  return status === 0;
}

/** Checks that the docs site leads to each page of `docs`, and to no other. */
function checkOrder(documents) {
  const inDocs = documents.map(({ path }) => path).filter((path) => /^docs.(?!adr)/.test(path));
  const listed = GROUPS.flatMap(({ pages }) => pages.map(([file]) => join('docs', `${file}.md`)));
  const differences = [
    ...inDocs.filter((path) => !listed.includes(path)).map((path) => `${path} is not in site/pages.mjs`),
    ...listed
      .filter((path) => !inDocs.includes(path))
      .map((path) => `site/pages.mjs lists ${path}, which is not there`),
    ...listed.filter((path, at) => listed.indexOf(path) !== at).map((path) => `site/pages.mjs lists ${path} twice`),
  ];
  return report('the order of the docs site', differences);
}

/** Checks that no option and no error is without its entry. */
const checkEntries = () => report('an entry for each option and error', missingEntries());

/** Prints what is wrong, if anything; returns whether nothing is. */
function report(title, flaws) {
  console.log(`${flaws.length === 0 ? 'ok    ' : 'FAILED'} ${title}`);
  for (const flaw of flaws) console.log(`  ${flaw}`);
  return flaws.length === 0;
}

await runIfStarted(import.meta.url, checkDocuments);
