import { spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import jestConfig from '../../jest.config.mjs';
import { root } from './planted.js';

// test/support/strict makes tests fail for what Node reports to the process.

const LATER = 'await new Promise((resolve) => setTimeout(resolve, 20));';

/** The body of a test by its failure. */
const PLANTED: Readonly<Record<string, string>> = {
  'a rejection is unhandled': `void Promise.reject(new Error('planted'));`,
  'a rejection is handled too late': `const late = Promise.reject(new Error('planted')); ${LATER} await late.catch(() => {});`,
  'a timer throws': `setTimeout(() => { throw new Error('planted'); }, 1); ${LATER}`,
  'code warns': `process.emitWarning('planted');`,
  'code is deprecated': `process.emitWarning('planted', 'DeprecationWarning', 'PLANTED');`,
  'an emitter has too many listeners': `const planted = new (await import('node:events')).EventEmitter();
    for (let i = 0; i < 11; i += 1) planted.on('planted', () => {});`,
  'a timer is too long': `clearTimeout(setTimeout(() => {}, 2 ** 31));`,
  'a process of the test warns': `const { execFileSync } = await import('node:child_process');
    execFileSync(process.execPath, ['-e', "process.emitWarning('planted')"], { stdio: 'pipe' });`,
};

/** Bodies of tests that pass. */
const SOUND: Readonly<Record<string, string>> = {
  'nothing goes wrong': '',
  'the object that it dropped is kept': `const found = [];
    const registry = new FinalizationRegistry((one) => found.push(one));
    registry.register({}, 'dropped', {});
    (await import('node:v8')).setFlagsFromString('--expose-gc');
    for (let i = 0; i < 3; i += 1) {
      ${LATER}
      (await import('node:vm')).runInNewContext('gc')();
    }
    ${LATER}
    expect(found).toEqual([]);`,
};

/** Two files of one worker. The larger one comes first, and leaves something behind. */
const IN_A_ROW: Readonly<Record<string, string>> = {
  'first.spec.ts': `it('leaves', () => {
    setTimeout(() => { throw new Error('planted'); }, 300);
    jest.spyOn(console, 'info').mockImplementation(() => undefined);
    jest.useFakeTimers();
    process.env.PLANTED = 'planted';
  });\n//${' '.repeat(1_000)}\n`,
  'second.spec.ts': `it('finds nothing', async () => {
    expect([jest.isMockFunction(console.info), process.env.PLANTED]).toEqual([false, undefined]);
    await new Promise((resolve) => setTimeout(resolve, 1_000));
  });\n`,
};

interface Result {
  readonly title: string;
  readonly status: string;
  readonly failureMessages: readonly string[];
}

interface FileResult {
  readonly name: string;
  readonly status: string;
  readonly message: string;
  readonly assertionResults: readonly Result[];
}

/** Runs these files in a separate Jest, with our settings. */
function runFiles(files: Readonly<Record<string, string>>): readonly FileResult[] {
  const folder = mkdtempSync(join(tmpdir(), 'strict-'));
  try {
    for (const [name, text] of Object.entries(files)) writeFileSync(join(folder, name), text);
    const config = JSON.stringify({
      ...jestConfig,
      rootDir: root,
      roots: [folder],
      globalSetup: undefined,
      globalTeardown: undefined,
    });
    const jest = join(root, 'node_modules', 'jest', 'bin', 'jest.js');
    const args = [jest, '--config', config, '--runInBand', '--json'];
    // Without the additions of this test's environment.
    const env = { ...process.env, NODE_OPTIONS: '' };
    const { stdout, stderr } = spawnSync(process.execPath, args, { cwd: root, encoding: 'utf8', env });
    if (stdout === '') throw new Error(stderr);
    return (JSON.parse(stdout) as { testResults: FileResult[] }).testResults;
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

describe('a test', () => {
  let results: readonly Result[];
  beforeAll(() => {
    const tests = Object.entries({ ...PLANTED, ...SOUND });
    const text = tests.map(([title, body]) => `it(${JSON.stringify(title)}, async () => { ${body} });\n`);
    results = runFiles({ 'strict.spec.ts': text.join('') })[0]!.assertionResults;
  }, 120_000);

  const resultOf = (title: string) => results.find((result) => result.title === title);

  it.each(Object.keys(PLANTED))('fails when %s', (title) => {
    const result = resultOf(title);
    expect(result?.status).toBe('failed');
    expect(result?.failureMessages.join('\n')).toMatch(/planted|TimeoutOverflowWarning/);
  });

  it.each(Object.keys(SOUND))('passes when %s', (title) =>
    expect(resultOf(title)).toMatchObject({ status: 'passed', failureMessages: [] }),
  );
});

describe('a test file', () => {
  it('restores its replacements, and its late errors fail the next file', () => {
    const [first, second] = runFiles(IN_A_ROW).toSorted((a, b) => a.name.localeCompare(b.name));
    expect([first!.status, second!.status]).toEqual(['passed', 'failed']);
    expect(second!.assertionResults).toMatchObject([{ title: 'finds nothing', status: 'passed' }]);
    expect(second!.message).toContain('planted');
  }, 60_000);
});
