import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { root } from './planted.js';

/** The section of docs/verification.md that lists the files on which exclusion depends. */
const [, section = ''] = /^## The kernel\n([^]*?)^## /m.exec(
  readFileSync(join(root, 'docs', 'verification.md'), 'utf8'),
)!;
const files = [...section.matchAll(/`(lib\/[^`]+)`/g)].map(([, path]) => path!);
const linesOf = (ending: string): number =>
  files
    .filter((path) => path.endsWith(ending))
    .map((path) => readFileSync(join(root, path), 'utf8').split('\n').length - 1)
    .reduce((sum, lines) => sum + lines, 0);

describe('the kernel, on which exclusion depends', () => {
  it('has each script that writes a lock', () => {
    const scripts = readdirSync(join(root, 'lib/redis/scripts')).filter((name) => name.endsWith('.lua'));
    // These only read a lock, or belong to the history.
    const others = ['append-history.lua', 'inspect.lua', 'read-history.lua'];
    const listed = files.filter((path) => path.endsWith('.lua')).map((path) => path.replace('lib/redis/scripts/', ''));
    expect([...listed, ...others].sort()).toEqual(scripts.sort());
  });

  it('has between 1 and 4,000 lines of TypeScript', () => {
    expect(linesOf('.ts')).toBeGreaterThan(0);
    expect(linesOf('.ts')).toBeLessThanOrEqual(4_000);
  });

  it('has at most 900 lines of Lua', () => expect(linesOf('.lua')).toBeLessThanOrEqual(900));
});
