// The public API as text: the declarations that tsc emits from lib for each entry in `exports` of package.json.
// `node scripts/api-snapshot.mjs` writes it to test/api, and test/unit/public-api.spec.ts compares it. Needs no build.
// A declaration or member whose doc comment says "; internal", or begins with "Internal:", is public only for TypeScript. Such
// members are left out; such exports are listed at the end by name.
import { mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { format } from 'prettier';
import ts from 'typescript';
import { isStarted, manifest, root } from './checks.mjs';

/** Nothing is written there: the declarations stay in memory, so an old build is never read. */
const TYPES = join(root, 'dist-types');
const INTERNAL = /; internal\b|^\s*Internal:/;

/**
 * An entry in `exports` of package.json that is code: `name` is the part of an import after the package's name, and `index` for the
 * package itself; `specifier` is as in package.json; `file` its path in lib, and in each build, without extension.
 * @typedef {{ name: string, specifier: string, file: string }} ApiEntry
 *
 * The declarations of an entry as in the snapshot, the names that exist at run time, and the types that its signatures mention but no
 * entry exports. `flaws`: the docstrings that are too long, or whose `@throws` has more than names.
 * @typedef {{ name: string, text: string, values: string[], forgotten: { name: string, neededBy: string }[], flaws: string[] }} EntryApi
 */

/** The folder of the snapshots. */
export const SNAPSHOTS = join(root, 'test', 'api');

/** @returns {ApiEntry[]} */
export function entries() {
  const code = Object.entries(manifest.exports).filter(([, target]) => typeof target === 'object');
  return code.map(([specifier, target]) => ({
    name: specifier === '.' ? 'index' : specifier.replace('./', ''),
    specifier,
    file: target.import.default.replace('./dist/esm/', '').replace(/\.js$/, ''),
  }));
}

/**
 * Reads the API of all entries from lib. The text includes forgotten types, and the types that those need in turn: they are as
 * public as the declarations that mention them.
 * @returns {Promise<EntryApi[]>}
 */
export async function readApi() {
  const program = declarationsOf(join(root, 'tsconfig.build.json'));
  const checker = program.getTypeChecker();
  const modules = entries().map((entry) => ({ ...entry, exports: exportsOf(program, checker, entry.file) }));
  const exported = new Set(modules.flatMap((module) => module.exports.flatMap(({ declarations }) => declarations)));
  return Promise.all(
    modules.map(async ({ name, specifier, exports }) => {
      const forgotten = forgottenBy(exports, checker, exported);
      return {
        name,
        text: await textOf(specifier, exports, forgotten),
        values: exports.filter(({ isValue }) => isValue).map((entry) => entry.name),
        forgotten: forgotten.filter(({ isDirect }) => isDirect),
        flaws: exports.flatMap(({ name, declarations }) => declarations.flatMap((node) => docFlaws(node, name))),
      };
    }),
  );
}

/** Returns a program of the declarations that tsc emits for a configuration. */
function declarationsOf(configFile) {
  const { options, fileNames, errors } = ts.getParsedCommandLineOfConfigFile(
    configFile,
    { outDir: TYPES, emitDeclarationOnly: true, stableTypeOrdering: true },
    { ...ts.sys, onUnRecoverableConfigFileDiagnostic: fail },
  );
  errors.forEach(fail);
  const texts = new Map();
  const lib = ts.createProgram(fileNames, options);
  const { diagnostics } = lib.emit(undefined, (path, text) => texts.set(path, text), undefined, true);
  [...lib.getSyntacticDiagnostics(), ...diagnostics].forEach(fail);

  const host = ts.createCompilerHost(options);
  host.fileExists = (path) => (path.startsWith(TYPES) ? texts.has(path) : ts.sys.fileExists(path));
  host.readFile = (path) => texts.get(path) ?? ts.sys.readFile(path);
  host.directoryExists = (path) => path.startsWith(TYPES) || ts.sys.directoryExists(path);
  return ts.createProgram([...texts.keys()], options, host);
}

function fail(diagnostic) {
  throw new Error(ts.formatDiagnostic(diagnostic, { ...ts.sys, getNewLine: () => '\n', getCanonicalFileName: String }));
}

/** Returns the exports of a module, sorted by name. */
function exportsOf(program, checker, file) {
  const source = program.getSourceFile(`${TYPES}/${file}.d.ts`);
  const names = checker.getExportsOfModule(checker.getSymbolAtLocation(source)).map((symbol) => {
    const target = symbol.flags & ts.SymbolFlags.Alias ? checker.getAliasedSymbol(symbol) : symbol;
    const isValue = (target.flags & ts.SymbolFlags.Value) !== 0;
    const isTypeOnly = isValue && symbol.declarations.some((node) => ts.isTypeOnlyImportOrExportDeclaration(node));
    return { name: symbol.name, isValue: isValue && !isTypeOnly, isTypeOnly, declarations: target.declarations };
  });
  return names.sort(byName);
}

const byName = (a, b) => (a.name < b.name ? -1 : Number(a.name > b.name));

function isInternal(node) {
  return ts.getJSDocCommentsAndTags(node).some((doc) => INTERNAL.test(ts.getTextOfJSDocComment(doc.comment) ?? ''));
}

function isHidden(node) {
  if (!ts.isClassElement(node) && !ts.isTypeElement(node)) return false;
  // A private constructor shows users that they cannot build the class.
  const isPrivate =
    node.modifiers?.some(({ kind }) => kind === ts.SyntaxKind.PrivateKeyword) && !ts.isConstructorDeclaration(node);
  return isPrivate || (node.name !== undefined && ts.isPrivateIdentifier(node.name)) || isInternal(node);
}

const MAX_DOC_LINES = 6;
const ONLY_NAMES = /^(?:[A-Z]\w+|`signal\.reason`)(?:,\s+(?:[A-Z]\w+|`signal\.reason`))*$/;

function docFlaws(node, name) {
  if (isHidden(node) || isInternal(node)) return [];
  const where = node.name && ts.isIdentifier(node.name) && node.name.text !== name ? `${name}.${node.name.text}` : name;
  const owner = ts.isVariableDeclaration(node) ? node.parent.parent : node;
  const own = ts.getJSDocCommentsAndTags(node).filter((doc) => ts.isJSDoc(doc) && doc.parent === owner);
  const flaws = own.flatMap((doc) => {
    const lines = doc.getText().split('\n').length - 2;
    const thrown = (doc.tags ?? []).filter(({ tagName }) => tagName.text === 'throws');
    const texts = thrown.map(({ comment }) => ts.getTextOfJSDocComment(comment) ?? '');
    return [
      ...(lines > MAX_DOC_LINES ? [`${where}: a docstring of ${lines} lines`] : []),
      ...texts.filter((text) => !ONLY_NAMES.test(text)).map((text) => `${where}: @throws ${text}`),
    ];
  });
  node.forEachChild((child) => void flaws.push(...docFlaws(child, name)));
  return flaws;
}

async function textOf(specifier, exports, forgotten) {
  const isMarked = ({ declarations }) => declarations.every(isInternal);
  const [shown, internal] = [exports.filter((entry) => !isMarked(entry)), exports.filter(isMarked)];
  const parts = [
    `// The public API of nestjs-redis-lock${specifier.slice(1)}, as \`node scripts/api-snapshot.mjs\` writes it.`,
    ...shown.flatMap(printedEntry),
    ...(forgotten.length > 0 ? ['// Needed by the above, and exported by no entry:'] : []),
    ...forgotten.flatMap(printedEntry),
    ...(internal.length > 0 ? [`// Internal: ${internal.map(({ name }) => name).join(', ')}`] : []),
  ];
  return format(parts.join('\n\n'), { parser: 'typescript', printWidth: 120, singleQuote: true });
}

function printedEntry({ name, declarations, isTypeOnly }) {
  const note = isTypeOnly ? '// Its type only:\n' : '';
  return declarations.map((node) => note + (node.name.text === name ? '' : `// As ${name}:\n`) + printed(node));
}

/** Prints a declaration without documentation and hidden members; the other members are sorted by name. */
function printed(declaration) {
  const transformer = (context) => {
    const visit = (node) => (isHidden(node) ? undefined : withSortedMembers(ts.visitEachChild(node, visit, context)));
    return visit;
  };
  const { transformed } = ts.transform(declaration, [transformer]);
  const printer = ts.createPrinter({ removeComments: true });
  const text = printer.printNode(ts.EmitHint.Unspecified, transformed[0], declaration.getSourceFile());
  return ts.isVariableDeclaration(declaration) ? `export declare const ${text};` : text;
}

/** Overloads keep their order. Members without a name (constructors, call signatures) come first. */
function withSortedMembers(node) {
  const { modifiers, name, typeParameters, heritageClauses } = node;
  const nameOf = (member) => ({ name: member.name?.text ?? member.name?.getText() ?? '' });
  const sorted = () => node.members.toSorted((a, b) => byName(nameOf(a), nameOf(b)));
  if (ts.isTypeLiteralNode(node)) return ts.factory.updateTypeLiteralNode(node, sorted());
  if (!ts.isClassDeclaration(node) && !ts.isInterfaceDeclaration(node)) return node;
  const update = `update${ts.isClassDeclaration(node) ? 'Class' : 'Interface'}Declaration`;
  return ts.factory[update](node, modifiers, name, typeParameters, heritageClauses, sorted());
}

/** Returns the types that are needed and not exported, sorted by name; `isDirect`: an export itself mentions the type. */
function forgottenBy(exports, checker, exported) {
  const found = new Map();
  const queue = exports.map((entry) => ({ ...entry, isDirect: true }));
  for (const { name, declarations, isDirect } of queue) {
    for (const symbol of declarations.flatMap((node) => mentionedIn(node, checker))) {
      if (found.has(symbol) || symbol.declarations.some((node) => exported.has(node) || isInternal(node))) continue;
      found.set(symbol, { name: symbol.name, declarations: symbol.declarations, neededBy: name, isDirect });
      queue.push({ name: symbol.name, declarations: symbol.declarations, isDirect: false });
    }
  }
  return [...found.values()].sort(byName);
}

/** Returns our own symbols, declared at the top of a file, that the visible parts of a declaration refer to. */
function mentionedIn(declaration, checker) {
  const symbols = [];
  const visit = (node) => {
    if (isHidden(node)) return;
    const symbol = ts.isIdentifier(node) ? checker.getSymbolAtLocation(node) : undefined;
    if (symbol) symbols.push(symbol.flags & ts.SymbolFlags.Alias ? checker.getAliasedSymbol(symbol) : symbol);
    node.forEachChild(visit);
  };
  if (!isInternal(declaration)) visit(declaration);
  return symbols.filter((symbol) => symbol.declarations?.some(isTopOfOurs));
}

function isTopOfOurs(declaration) {
  const statement = ts.isVariableDeclaration(declaration) ? declaration.parent.parent : declaration;
  return ts.isSourceFile(statement.parent) && statement.parent.fileName.startsWith(`${TYPES}/`);
}

if (isStarted(import.meta.url)) {
  const api = await readApi();
  rmSync(SNAPSHOTS, { recursive: true });
  mkdirSync(SNAPSHOTS);
  for (const { name: entry, text, forgotten } of api) {
    writeFileSync(join(SNAPSHOTS, `${entry}.txt`), text);
    console.log(`test/api/${entry}.txt`);
    for (const type of forgotten) console.log(`  not exported: ${type.name}, needed by ${type.neededBy}`);
  }
}
