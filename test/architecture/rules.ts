import { posix } from 'node:path';
import ts from 'typescript';

/** Source texts by path, such as `core/lock.ts`. */
export type Sources = ReadonlyMap<string, string>;

interface Import {
  /** A path of the sources, or the name of a package or of a part of one. */
  readonly target: string;
  /** `import type` and `export type … from`: gone at run time. */
  readonly typeOnly: boolean;
}

/** What a layer may import: folders and files of lib (without `.ts`), and packages. */
interface LayerRule {
  readonly lib: readonly string[];
  readonly packages: readonly string[];
  /** What it may import with `import type` only. */
  readonly types?: readonly string[];
}

const NEST = ['@nestjs/', 'rxjs', 'reflect-metadata'];
const FOLDERS = ['core', 'redis', 'schedule', 'interceptor', 'decorators'];
const ROOT_FILES = [
  'redis-lock.service',
  'redis-lock.tokens',
  'redis-lock.options',
  'redis-lock.registration',
  'redis-lock.module-definition',
];

const WIRING = ['interceptor', 'redis-lock.module', 'redis-lock.options', 'redis-lock.service', 'redis-lock.tokens'];

/** Puts a test's locks in the place of those in Redis: wiring, as the module is. */
const TEST_WIRING: LayerRule = { lib: ['core', 'testing', ...WIRING], packages: NEST };

/** The import direction, by folder or by file; `.` stands for the other files beside index.ts. `node:` is open to all. */
const LAYERS: Readonly<Record<string, LayerRule>> = {
  core: { lib: ['core'], packages: [] },
  redis: { lib: ['core', 'redis'], packages: ['ioredis'] },
  schedule: { lib: ['core', 'schedule'], packages: ['@nestjs/'] },
  keys: { lib: ['core', 'keys'], packages: [] },
  interceptor: {
    lib: ['core', 'schedule', 'keys', 'interceptor', 'redis-lock.service', 'redis-lock.tokens'],
    types: ['redis-lock.options'],
    packages: NEST,
  },
  decorators: {
    lib: ['core', 'keys', 'interceptor', 'decorators', 'redis-lock.tokens'],
    packages: ['@nestjs/', 'reflect-metadata'],
  },
  testing: { lib: ['core', 'testing'], packages: NEST },
  'testing/redis-lock-testing.module': TEST_WIRING,
  'testing/fake-lock.service': TEST_WIRING,
  'testing/fake-locks': TEST_WIRING,
  observability: {
    lib: ['core', 'observability', 'redis-lock.tokens'],
    types: ['redis-lock.service'],
    packages: [...NEST, '@opentelemetry/api', 'prom-client'],
  },
  'redis-lock.module': { lib: [...FOLDERS, ...ROOT_FILES], packages: [...NEST, 'ioredis'] },
  'redis-lock.module-definition': { lib: ['core', ...ROOT_FILES], types: FOLDERS, packages: [...NEST, 'ioredis'] },
  'redis-lock.options': {
    lib: ['core', 'redis/connection/check-connection', ...ROOT_FILES],
    types: FOLDERS,
    packages: [...NEST, 'ioredis'],
  },
  'redis-lock.registration': { lib: ['core', 'redis-lock.tokens'], packages: NEST },
  '.': { lib: ['core', 'redis-lock.service', 'redis-lock.tokens', 'redis-lock.options'], packages: NEST },
};

/** Imports that go against the direction of the layers. */
export function layerViolations(sources: Sources): string[] {
  return [...sources].flatMap(([file, text]) => {
    if (file === 'index.ts') return [];
    const rule = LAYERS[withoutExtension(file)] ?? LAYERS[file.includes('/') ? file.split('/')[0]! : '.'];
    if (!rule) return [`${file}: no rule for this folder`];
    const refused = importsOf(file, text).filter((entry) => !allows(rule, entry));
    return refused.map(({ target }) => `${file} must not import ${target}`);
  });
}

function allows(rule: LayerRule, { target, typeOnly }: Import): boolean {
  if (target.startsWith('node:')) return true;
  if (!target.endsWith('.ts')) return rule.packages.some((name) => isPartOf(target, name));
  const allowed = typeOnly ? [...rule.lib, ...(rule.types ?? [])] : rule.lib;
  return allowed.some((name) => isPartOf(withoutExtension(target), name));
}

const isPartOf = (path: string, name: string) =>
  path === name || path.startsWith(name.endsWith('/') ? name : `${name}/`);
const withoutExtension = (file: string) => file.replace(/\.ts$/, '');

/** What an index says besides `export { … } from` and `export type { … } from`. */
export function indexViolations(sources: Sources, path = 'index.ts'): string[] {
  const text = sources.get(path);
  if (text === undefined) return [`${path} is missing`];
  const file = parse(path, text);
  const isPlain = (node: ts.Statement) =>
    ts.isExportDeclaration(node) && node.moduleSpecifier && node.exportClause && ts.isNamedExports(node.exportClause);
  return file.statements.filter((node) => !isPlain(node)).map((node) => `${path}: ${node.getText(file)}`);
}

/** Cycles of imports that are there at run time, each as a list of files. */
export function importCycles(sources: Sources): string[] {
  const targets = (file: string) =>
    importsOf(file, sources.get(file)!).flatMap(({ target, typeOnly }) =>
      !typeOnly && sources.has(target) ? [target] : [],
    );
  const graph = new Map([...sources.keys()].map((file) => [file, targets(file)]));
  const done = new Set<string>();
  const cycles: string[] = [];
  const visit = (file: string, path: readonly string[]): void => {
    if (path.includes(file)) return void cycles.push([...path.slice(path.indexOf(file)), file].join(' -> '));
    if (done.has(file)) return;
    for (const target of graph.get(file)!) visit(target, [...path, file]);
    done.add(file);
  };
  for (const file of graph.keys()) visit(file, []);
  return cycles;
}

/** Files that are too long. */
export function longFiles(sources: Sources, limit: number): string[] {
  const lengths = [...sources].map(([file, text]) => ({ file, lines: lineCount(text) }));
  return lengths.filter(({ lines }) => lines > limit).map(({ file, lines }) => `${file}: ${lines} lines`);
}

/** Functions, methods, accessors and constructors that are too long. */
export function longFunctions(sources: Sources, limit: number): string[] {
  return [...sources].flatMap(([path, text]) => {
    const file = parse(path, text);
    return nodesOf(file).flatMap((node) => {
      const lines = ts.isFunctionLike(node) ? codeLines(file, node) : 0;
      const line = file.getLineAndCharacterOfPosition(node.getStart(file)).line + 1;
      return lines > limit ? [`${path}:${line}: a function of ${lines} lines`] : [];
    });
  });
}

/** The lines of a function. A Lua script inside it is a text, bounded by the length of its file. */
function codeLines(file: ts.SourceFile, node: ts.Node): number {
  const isInScript = (inner: ts.Node) => ts.findAncestor(inner.parent, ts.isTaggedTemplateExpression);
  const scripts = nodesOf(node).filter((inner) => ts.isTaggedTemplateExpression(inner) && !isInScript(inner));
  return scripts.reduce((lines, script) => lines - lineSpan(file, script), lineSpan(file, node)) + 1;
}

function lineSpan(file: ts.SourceFile, node: ts.Node): number {
  const lineOf = (position: number) => file.getLineAndCharacterOfPosition(position).line;
  return lineOf(node.end) - lineOf(node.getStart(file));
}

/** What a file imports, by the paths of the files or the names of the packages. */
export function importsOf(path: string, text: string): Import[] {
  return nodesOf(parse(path, text)).flatMap((node) => {
    const specifier = specifierOf(node);
    if (!specifier || !ts.isStringLiteralLike(specifier)) return [];
    return [{ target: resolve(path, specifier.text), typeOnly: isTypeOnly(node) }];
  });
}

function specifierOf(node: ts.Node): ts.Node | undefined {
  if (ts.isImportDeclaration(node) || ts.isExportDeclaration(node)) return node.moduleSpecifier;
  if (ts.isExternalModuleReference(node)) return node.expression;
  if (ts.isImportTypeNode(node) && ts.isLiteralTypeNode(node.argument)) return node.argument.literal;
  const isLoad =
    ts.isCallExpression(node) &&
    (node.expression.kind === ts.SyntaxKind.ImportKeyword || node.expression.getText() === 'require');
  return isLoad ? node.arguments[0] : undefined;
}

function isTypeOnly(node: ts.Node): boolean {
  if (ts.isImportDeclaration(node)) return node.importClause?.phaseModifier === ts.SyntaxKind.TypeKeyword;
  return ts.isImportTypeNode(node) || (ts.isExportDeclaration(node) && node.isTypeOnly);
}

function resolve(from: string, specifier: string): string {
  if (!specifier.startsWith('.')) return specifier;
  return posix.join(posix.dirname(from), specifier).replace(/\.js$/, '.ts');
}

function parse(path: string, text: string): ts.SourceFile {
  return ts.createSourceFile(path, text, ts.ScriptTarget.Latest, true);
}

function nodesOf(root: ts.Node): ts.Node[] {
  const nodes: ts.Node[] = [];
  const visit = (node: ts.Node): void => {
    nodes.push(node);
    node.forEachChild(visit);
  };
  visit(root);
  return nodes;
}

const lineCount = (text: string) => text.split('\n').length - (text.endsWith('\n') ? 1 : 0);
