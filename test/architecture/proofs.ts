import { existsSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import ts from 'typescript';

/** One row of a table: `| 7 | what may go wrong | what the library does | proof |`. */
interface Row {
  readonly number: number;
  readonly proof: string;
}

const ROW = /^\| (\d+) \|(?:[^|]*\|){2} (.*)\|$/gm;
/** A link, and the words of a title that follow it. */
const LINK = /\[[^\]]*\]\(([^)#]+)(#[^)]*)?\)((?:,? "[^"]+")*)/g;

const rowsIn = (markdown: string): Row[] =>
  [...markdown.matchAll(ROW)].map(([, number, proof]) => ({ number: Number(number), proof: proof! }));

/**
 * What is wrong with the tables in a document: each row needs a number that follows that of the row before, and a proof. A proof
 * is a test, named by its file and words of its title, or a heading of another document. docs-check.mjs checks the headings.
 */
export function flawsOfProofs(document: string): string[] {
  const rows = rowsIn(readFileSync(document, 'utf8'));
  if (rows.length === 0) return [`${document}: no proofs`];
  return rows.flatMap((row, i) => {
    const flaws = row.number === i + 1 ? [] : [`its number should be ${i + 1}`];
    return [...flaws, ...flawsOf(row, dirname(document))].map((flaw) => `${row.number}: ${flaw}`);
  });
}

function flawsOf({ proof }: Row, folder: string): string[] {
  const links = [...proof.matchAll(LINK)];
  if (links.length === 0) return ['no proof'];
  const rest = proof.replace(LINK, '').replaceAll(/[;\s]/g, '');
  if (rest !== '') return [`neither a test nor a heading: ${rest}`];
  return links.flatMap(([link, path, heading, titles]) => {
    if (path!.endsWith('.md')) return heading ? [] : [`no heading: ${link}`];
    const file = join(folder, path!);
    if (!existsSync(file)) return [`no such file: ${path}`];
    const words = [...titles!.matchAll(/"([^"]+)"/g)].map(([, text]) => text!);
    const { titles: known, others } = namesIn(readFileSync(file, 'utf8'));
    const listsFaults = !path!.endsWith('.spec.ts');
    const isKnown = (text: string) => known.some((title) => title.includes(text)) || (listsFaults && others.has(text));
    const missing = words.filter((text) => !isKnown(text));
    return words.length === 0 ? [`no title: ${link}`] : missing.map((text) => `no test in ${path} says "${text}"`);
  });
}

/**
 * The titles of the tests in a file, with the names of the cases in a list of cases; and all other texts and names of properties,
 * which are the names of faults where faults are listed.
 */
function namesIn(text: string): { titles: readonly string[]; others: ReadonlySet<string> } {
  const titles: string[] = [];
  const others = new Set<string>();
  const visit = (node: ts.Node): void => {
    if (ts.isCallExpression(node) && node.arguments[0] && isTest(node.expression))
      titles.push(textOf(node.arguments[0]));
    if (ts.isStringLiteralLike(node)) others.add(node.text);
    if (ts.isPropertyAssignment(node)) {
      others.add(node.name.getText());
      if (node.name.getText() === 'name') titles.push(textOf(node.initializer));
    }
    ts.forEachChild(node, visit);
  };
  visit(ts.createSourceFile('spec.ts', text, ts.ScriptTarget.Latest, true));
  return { titles, others };
}

/** `it`, `itOnRedis`, `describe`, and what `it.each(…)` returns. */
function isTest(callee: ts.Expression): boolean {
  if (ts.isIdentifier(callee)) return /^(it|describe)([A-Z]|$)/.test(callee.text);
  if (ts.isCallExpression(callee)) return ts.isPropertyAccessExpression(callee.expression) && isTest(callee.expression);
  return ts.isPropertyAccessExpression(callee) && callee.name.text === 'each' && isTest(callee.expression);
}

const textOf = (node: ts.Expression): string =>
  ts.isStringLiteralLike(node) ? node.text : node.getText().replaceAll(/^`|`$/g, '');
