import { spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

const root = join(import.meta.dirname, '..', '..', '..');

/** Mistakes of users, each on separate lines, with the expected text of the compiler. */
const MISTAKES: Record<string, { code: string; shown: string }> = {
  'a template of backticks in quotes': {
    code: "@Locked('order:${id}') async run(id: string): Promise<void> {}",
    shown: "{ and } fill nothing: write '<0>' for the first argument, '<0.id>' for a property of it",
  },
  'an index in braces': {
    code: "@ReadLocked('order:{0}') async run(id: string): Promise<void> {}",
    shown: "{ and } fill nothing: write '<0>' for the first argument",
  },
  'a name instead of an index': {
    code: "@Locked('order:<id>') async run(id: string): Promise<void> {}",
    shown: "<id> is not an argument of this method: arguments are numbered, '<0>' is the first",
  },
  'braces in a key of the request': {
    code: "readonly lock = LockInterceptor.for('user:{id}');",
    shown: "{ and } fill nothing: write '<0>' for the first argument",
  },
  'a rest parameter': {
    code: "@Locked('order:<0>:<1>') async run(...ids: string[]): Promise<void> {}",
    shown:
      '<1> may be undefined: make it required, as in [string, ...string[]] or { id: string }, or use a key function',
  },
  'a name of a record': {
    code: "@Limited('order:<0.id>', 5) async run(ids: Record<string, string>): Promise<void> {}",
    shown: '<0.id> may be undefined: make it required',
  },
  'a key function of more than a rest parameter may have': {
    code: '@Locked((id: string) => id) async run(...ids: string[]): Promise<void> {}',
    shown: 'one that is optional, or of a rest parameter, may be undefined',
  },
  'a key with a type parameter': {
    code: '@Locked(`order:${name}:<0>`) async run(id: string): Promise<void> {}',
    shown: 'the compiler cannot resolve a type parameter, in the key or in an argument: write the key `as string`',
  },
  'keys with a type parameter': {
    code: '@Locked([`order:${name}:<0>`]) async run(id: string): Promise<void> {}',
    shown: 'the compiler cannot resolve a type parameter, in the key or in an argument: write the key `as string`',
  },
  'an argument of a type parameter': {
    code: "@Locked('order:<0.id>') async run(order: T): Promise<void> {}",
    shown: 'the compiler cannot resolve a type parameter',
  },
  'a call that may be skipped': {
    code: "@Locked('order:<0>', { ifBusy: 'skip' }) async run(id: string): Promise<string> { return id; }",
    shown: "by ifBusy: 'skip' a call may resolve undefined: type the result Promise<... | undefined>",
  },
  'a job with a result': {
    code: "@Locked('job', { oncePer: 'fire' }) async run(): Promise<number> { return 7; }",
    shown: 'by oncePer a call may resolve undefined: type the result Promise<... | undefined>',
  },
  'a call that may be skipped without Redis': {
    code: "@WriteLocked('k', { onUnavailable: 'skip' }) async run(): Promise<number> { return 7; }",
    shown: "by onUnavailable: 'skip' a call may resolve undefined: type the result Promise<... | undefined>",
  },
  'a call that may be skipped, of a type parameter': {
    code: "@Locked('k', { ifBusy: 'skip' }) async run(): Promise<T> { throw new Error(); }",
    shown: 'a skipped call may resolve undefined: type the result Promise<... | undefined>',
  },
  'a method that does not wait': {
    code: "@Locked('order:<0>') run(id: string): string { return id; }",
    shown: 'a locked method must return a promise, an Observable or an async iterable',
  },
  'a result that may be a stream, of a call that may be skipped': {
    code: "@Locked('k', { ifBusy: 'skip' }) run(): Promise<string> | NodeJS.ReadableStream { throw new Error(); }",
    shown: 'a locked method cannot return a stream',
  },
  'an answer of another type': {
    code: "@Locked('k', { ifBusy: () => 7 }) async run(): Promise<string> { return ''; }",
    shown: 'the function of ifBusy returns a value that the result type of this method lacks',
  },
};
const TITLES = Object.keys(MISTAKES);

const IMPORTED = {
  Locked: 'decorators/locked.decorator',
  ReadLocked: 'decorators/locked.decorator',
  WriteLocked: 'decorators/locked.decorator',
  Limited: 'decorators/locked.decorator',
  LockInterceptor: 'interceptor/lock.interceptor',
};

const SOURCE = [
  ...Object.entries(IMPORTED).map(([name, file]) => `import { ${name} } from '${root}/lib/${file}.js';`),
  'export function mixin<N extends string, T extends { id: string }>(name: N) {',
  ...TITLES.map((title, index) => `class Mistake${index} { ${MISTAKES[title]!.code} }`),
  `return [${TITLES.map((_title, index) => `Mistake${index}`).join(', ')}]; }`,
];
const FIRST_LINE = 1 + SOURCE.findIndex((line) => line.startsWith('class'));

/** What the compiler shows for each line of the source. */
function compile(compiler: string): Map<number, string> {
  const folder = mkdtempSync(join(tmpdir(), 'compiler-texts-'));
  try {
    const file = join(folder, 'mistakes.ts');
    writeFileSync(file, SOURCE.join('\n'));
    writeFileSync(
      join(folder, 'tsconfig.json'),
      JSON.stringify({
        extends: join(root, 'test/types/tsconfig.json'),
        compilerOptions: { typeRoots: [join(root, 'node_modules/@types')], declaration: false },
        include: [file],
      }),
    );
    const args = [join(root, 'node_modules', compiler, 'bin/tsc'), '--pretty', 'false', '-p', folder];
    const { stdout } = spawnSync(process.execPath, args, { encoding: 'utf8' });
    const shown = stdout.split(/^\S*mistakes\.ts\((?=\d+,\d+\): error)/mu).slice(1);
    return new Map(shown.map((text) => [Number.parseInt(text, 10), text]));
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

/** A folder of node_modules: `typescript`, which compiles this project, or another supported version. */
const COMPILER = process.env['COMPILER'] ?? 'typescript';

describe(`what ${COMPILER} shows for`, () => {
  let shown = new Map<number, string>();
  beforeAll(() => {
    shown = compile(COMPILER);
  }, 300_000);

  it.each(TITLES)('%s names what is wrong and what to write', (title) => {
    expect(shown.get(FIRST_LINE + TITLES.indexOf(title))).toContain(MISTAKES[title]!.shown);
  });

  it('each mistake is one error, and the rest compiles', () => {
    expect([...shown.keys()]).toEqual(TITLES.map((_title, index) => FIRST_LINE + index));
  });
});
