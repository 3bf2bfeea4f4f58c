// Makes mutants of TypeScript: small changes, each of which a test must notice. All mutants of a file are in one copy of its text, in
// which `$mutant(id)` switches one on (MUTANT), and notes which ones a test reaches.
import ts from 'typescript';

const { SyntaxKind } = ts;

/** What replaces an operator: for a comparison, the other boundary and the contrary. */
const OPERATORS = {
  '<': ['<=', '>='],
  '<=': ['<', '>'],
  '>': ['>=', '<='],
  '>=': ['>', '<'],
  '===': ['!=='],
  '!==': ['==='],
  '&&': ['||'],
  '||': ['&&'],
  '+': ['-'],
  '-': ['+'],
  '*': ['/'],
  '/': ['*'],
};

/** What a function returns instead, by the text of its type. */
const RESULTS = { boolean: ['true', 'false'], number: ['0'], string: ["''"] };

const FIRST =
  'globalThis.$mutant ??= Object.assign((id) => (globalThis.$mutant.reached.add(id), id === globalThis.$mutant.active), ' +
  '{ reached: new Set(), active: Number(process.env.MUTANT ?? -1) }); ';

/**
 * @typedef {{ id: number, file: string, line: number, was: string, becomes: string }} Mutant
 * @param {string} file
 * @param {string} text
 * @param {number} firstId
 * @returns {{ mutants: Mutant[], copy: string }}
 */
export function mutate(file, text, firstId) {
  const source = ts.createSourceFile(file, text, ts.ScriptTarget.ES2022, true);
  const mutants = [];

  /** Notes a mutant; returns its condition. */
  const add = (node, becomes) => {
    const id = firstId + mutants.length;
    const line = source.getLineAndCharacterOfPosition(node.getStart()).line + 1;
    mutants.push({ id, file, line, was: node.getText(), becomes });
    return `$mutant(${id})`;
  };

  /** The text of a node, with the mutants inside it and of itself. */
  const print = (node) => {
    if (ts.isTypeNode(node) && !ts.isExpressionWithTypeArguments(node)) return text.slice(node.pos, node.end);
    if (ts.isInterfaceDeclaration(node) || ts.isTypeAliasDeclaration(node) || ts.isImportDeclaration(node))
      return text.slice(node.pos, node.end);
    const start = node.getStart();
    let inner = '';
    let from = start;
    ts.forEachChild(node, (child) => {
      const childStart = Math.max(child.pos, start);
      inner += text.slice(from, childStart) + print(child).slice(childStart - child.pos);
      from = child.end;
    });
    inner += text.slice(from, node.end);
    return text.slice(node.pos, start) + withOwn(node, inner);
  };

  const withOwn = (node, inner) => {
    if (ts.isExpressionStatement(node) && node.expression.kind !== SyntaxKind.CallExpression) {
      return isRemovable(node.expression) ? `{ if (!${add(node, '')}) { ${inner} } }` : inner;
    }
    if (ts.isExpressionStatement(node) && node.expression.expression.kind !== SyntaxKind.SuperKeyword)
      return `{ if (!${add(node, '')}) { ${inner} } }`;
    const others = replacementsOf(node).filter((other) => other !== node.getText());
    if (others.length === 0) return inner;
    return `(${others.map((other) => `${add(node, other)} ? (${other}) : `).join('')}(${inner}))`;
  };

  return { copy: FIRST + print(source), mutants };
}

const isRemovable = (node) =>
  ts.isAwaitExpression(node) || ts.isBinaryExpression(node) || ts.isPostfixUnaryExpression(node);

/** What an expression may be instead. */
function replacementsOf(node) {
  if (!ts.isExpression(node) || ts.isParenthesizedExpression(node)) return [];
  if (ts.isBinaryExpression(node)) {
    const { left, operatorToken, right } = node;
    const [a, operator, b] = [left.getText(), operatorToken.getText(), right.getText()];
    if (operator === '??') return isResult(node) ? [a, b] : [a];
    return (OPERATORS[operator] ?? []).map((other) => `${a} ${other} ${b}`);
  }
  if (ts.isAwaitExpression(node) && !ts.isExpressionStatement(node.parent)) return [node.expression.getText()];
  if (node.kind === SyntaxKind.TrueKeyword) return ['false'];
  if (node.kind === SyntaxKind.FalseKeyword) return ['true'];
  if (isCondition(node)) return [`!(${node.getText()})`];
  return isResult(node) ? resultsOf(node) : [];
}

/** Whether a node decides a branch; comparisons and logical operators have other mutants. */
function isCondition(node) {
  const { parent } = node;
  if (ts.isIfStatement(parent) || ts.isWhileStatement(parent)) return parent.expression === node;
  if (ts.isConditionalExpression(parent)) return parent.condition === node;
  if (ts.isPrefixUnaryExpression(parent)) return false;
  if (!ts.isBinaryExpression(parent)) return false;
  return [SyntaxKind.AmpersandAmpersandToken, SyntaxKind.BarBarToken].includes(parent.operatorToken.kind);
}

const isResult = ({ parent, kind }) =>
  (ts.isReturnStatement(parent) || (ts.isArrowFunction(parent) && kind !== SyntaxKind.Block)) ?? false;

function resultsOf(node) {
  const { parent } = node;
  if (ts.isArrowFunction(parent) && parent.body !== node) return [];
  const made = ts.isArrowFunction(parent) ? parent : ts.findAncestor(parent, ts.isFunctionLike);
  const type = made?.type?.getText() ?? '';
  // Callers do not use these.
  if (/^(void|Promise<void>|never)$/.test(type) || ts.isVoidExpression(node)) return [];
  if (ts.isArrowFunction(made) && made.type === undefined && !ts.isVariableDeclaration(made.parent)) return [];
  return RESULTS[type] ?? (node.getText() === 'undefined' || node.kind === SyntaxKind.NullKeyword ? [] : ['undefined']);
}
