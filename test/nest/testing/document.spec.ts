import { blocksOf, shownFiles } from '../support/shown-code.js';

const examples = shownFiles('test/nest/testing', 'example-');
const blocks = blocksOf('docs/testing.md');

describe('docs/testing.md', () => {
  it.each(examples)('shows %s as it runs', (_name, code) => {
    expect(blocks).toContain(code);
  });

  it('shows only tested code', () => {
    const running = examples.map(([, code]) => code);
    expect(blocks.filter((block) => !running.includes(block))).toEqual([]);
    expect(blocks).toHaveLength(examples.length);
  });
});
