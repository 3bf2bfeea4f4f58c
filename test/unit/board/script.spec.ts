import ts from 'typescript';
import { STYLE } from '../../../lib/board/page/page.js';
import { SCRIPT } from '../../../lib/board/page/script.js';

/** Names that are unknown, defined twice, or not used. */
const OF_NAMES = [2304, 2451, 2552, 6133];

/** The lines of a script of a browser with wrong syntax or wrong names. Without types, TypeScript finds no more. */
function problemsOf(script: string): string[] {
  const options: ts.CompilerOptions = {
    allowJs: true,
    checkJs: true,
    noEmit: true,
    noUnusedLocals: true,
    skipLibCheck: true,
    strict: false,
    target: ts.ScriptTarget.ES2022,
    module: ts.ModuleKind.ES2022,
    lib: ['lib.es2022.d.ts', 'lib.dom.d.ts', 'lib.dom.iterable.d.ts'],
    types: [],
  };
  const host = ts.createCompilerHost(options);
  const disk = { ...host };
  const isBoard = (path: string): boolean => path === '/board.js';
  host.readFile = (path) => (isBoard(path) ? script : disk.readFile(path));
  host.fileExists = (path) => isBoard(path) || disk.fileExists(path);
  host.getSourceFile = (path, language, ...rest) =>
    isBoard(path) ? ts.createSourceFile(path, script, language) : disk.getSourceFile(path, language, ...rest);
  const program = ts.createProgram(['/board.js'], options, host);
  const source = program.getSourceFile('/board.js')!;
  const wrong = program.getSemanticDiagnostics(source).filter(({ code }) => OF_NAMES.includes(code));
  return [...program.getSyntacticDiagnostics(source), ...wrong].map(
    ({ start }) => script.split('\n')[source.getLineAndCharacterOfPosition(start!).line]!,
  );
}

describe('the script of the page', () => {
  it('uses only what it defines and what browsers have', () => {
    expect(problemsOf(`${SCRIPT}\nunknownName();`)).toEqual(['unknownName();']);
  }, 120_000);

  it('does not create markup from texts, and runs none', () => {
    expect(SCRIPT).not.toMatch(
      /innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\b|new Function|DOMParser/,
    );
  });
});

/** The colours of a theme by their names. */
const coloursOf = (css: string): Record<string, string> =>
  Object.fromEntries([...css.matchAll(/--([\w-]+): (#\w{6});/g)].map(([, name, colour]) => [name!, colour!]));

/** The relative luminance of a colour, as WCAG defines it. */
function luminance(colour: string): number {
  const [red, green, blue] = [1, 3, 5].map((at) => {
    const part = Number.parseInt(colour.slice(at, at + 2), 16) / 255;
    return part <= 0.03928 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4;
  });
  return 0.2126 * red! + 0.7152 * green! + 0.0722 * blue!;
}

function contrast(one: string, other: string): number {
  const [dark, bright] = [luminance(one), luminance(other)].sort((a, b) => a - b);
  return (bright! + 0.05) / (dark! + 0.05);
}

describe('the style of the page', () => {
  const [light, dark] = STYLE.split('@media (prefers-color-scheme: dark)');

  it.each([
    ['light', light!],
    ['dark', dark!.slice(0, dark!.indexOf('\n}\n'))],
  ])('has the contrast of WCAG AA in its %s theme', (_name, css) => {
    const colours = coloursOf(css);
    const pairs = [
      ...['text', 'soft', 'link'].flatMap((text) => ['page', 'panel'].map((page) => [text, page])),
      ...['text', 'link'].map((text) => [text, 'mark']),
      ['bad-text', 'bad-page'],
    ];
    const low = pairs.filter(([text, page]) => contrast(colours[text!]!, colours[page!]!) < 4.5);
    const bars = ['bar', 'low'].filter((bar) => contrast(colours[bar]!, colours['track']!) < 3);
    expect([low, bars]).toEqual([[], []]);
  });
});
