import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';

const FOLDER = 'test/nest/testing';

/** The text as users write it: with the names under which they import the package. */
const asUsersWriteIt = (text: string): string =>
  text
    .replaceAll(/'[./]*\/lib\/testing\/index\.js'/g, "'nestjs-redis-lock/testing'")
    .replaceAll(/'[./]*\/lib\/index\.js'/g, "'nestjs-redis-lock'")
    .trim();

const examples = readdirSync(FOLDER)
  .filter((name) => name.startsWith('example-'))
  .map((name) => [name, asUsersWriteIt(readFileSync(join(FOLDER, name), 'utf8'))] as const);

const blocks = [...readFileSync('docs/testing.md', 'utf8').matchAll(/```ts\n(.*?)```/gs)].map(([, code]) =>
  code!.trim(),
);

describe('docs/testing.md', () => {
  it.each(examples)('shows %s as it runs', (_name, code) => {
    expect(blocks).toContain(code);
  });

  it('shows no code that is not tested', () => {
    const running = examples.map(([, code]) => code);
    expect(blocks.filter((block) => !running.includes(block))).toEqual([]);
    expect(blocks).toHaveLength(examples.length);
  });
});
