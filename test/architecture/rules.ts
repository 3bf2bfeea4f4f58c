import ts from 'typescript';

/** What an index contains in addition to `export { … } from` and `export type { … } from`. */
export function indexViolations(sources: ReadonlyMap<string, string>, path = 'index.ts'): string[] {
  const text = sources.get(path);
  if (text === undefined) return [`${path} is missing`];
  const file = ts.createSourceFile(path, text, ts.ScriptTarget.Latest, true);
  const isPlain = (node: ts.Statement) =>
    ts.isExportDeclaration(node) && node.moduleSpecifier && node.exportClause && ts.isNamedExports(node.exportClause);
  return file.statements.filter((node) => !isPlain(node)).map((node) => `${path}: ${node.getText(file)}`);
}
