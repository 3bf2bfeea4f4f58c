import { blocksOf, shownFiles } from '../support/shown-code.js';

const recipes = shownFiles('test/nest/recipes', 'recipe-');
const blocks = blocksOf('docs/recipes.md');
/** Prisma generates its client by a program that is downloaded. */
const NOT_RUN = './prisma.service.js';

describe('docs/recipes.md', () => {
  it.each(recipes)('shows %s as it runs', (_name, code) => {
    expect(blocks).toContain(code);
  });

  it('shows no code that is not tested, but for Prisma', () => {
    const running = recipes.map(([, code]) => code);
    const others = blocks.filter((block) => !running.includes(block));
    expect(others.filter((block) => !block.includes(NOT_RUN))).toEqual([]);
    expect(blocks).toHaveLength(recipes.length + 1);
  });
});
