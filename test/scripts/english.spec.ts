import { execFile } from 'node:child_process';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';

let folder: string;
beforeAll(async () => void (folder = await mkdtemp(join(tmpdir(), 'english-'))));
afterAll(() => rm(folder, { recursive: true }));

/** The lines of a file in which the check finds a phrase to rewrite. */
async function flawsIn(name: string, lines: readonly string[]): Promise<string[]> {
  const path = join(folder, name);
  await writeFile(path, lines.join('\n'));
  const run = promisify(execFile)(process.execPath, ['scripts/english.mjs', path]);
  const { stdout } = await run.catch((error: { stdout: string }) => error);
  return [...stdout.matchAll(/:(\d+): "/g)].map(([, line]) => lines[Number(line) - 1]!);
}

describe('the check of the English', () => {
  it('finds phrases in the prose of a page, also between two blocks, and in comments of its code', async () => {
    const page = [
      'Nobody waits.',
      '```ts',
      '// Nobody waits.',
      'nobody();',
      '```',
      'Somebody waits.',
      '```',
      'nobody',
      '```',
    ];
    expect(await flawsIn('page.md', page)).toEqual(['Nobody waits.', '// Nobody waits.', 'Somebody waits.']);
  });

  it('leaves out quotes', async () => {
    expect(await flawsIn('quotes.md', ['`nobody`', '> nobody', 'He wrote "nobody waits".'])).toEqual([]);
  });

  it('finds phrases in comments and texts, but not in names', async () => {
    const code = [
      "const nobody = 'nobody';",
      '/** The one',
      ' * that nobody',
      ' */',
      'throw new Error(`${nobody} told it`);',
    ];
    expect(await flawsIn('code.ts', code)).toEqual([' * that nobody', code[4]]);
  });

  it('finds phrases in pages, workflows and models', async () => {
    expect(await flawsIn('page.html', ['<p>Tell nobody.</p>'])).toHaveLength(2);
    expect(await flawsIn('flow.yml', ['name: anew'])).toHaveLength(1);
    expect(await flawsIn('model.qnt', ['// Nobody.', 'val NOBODY = 0'])).toEqual(['// Nobody.']);
  });
});
