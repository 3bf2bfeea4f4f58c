import { withSection } from './document.js';

const MARKS = ['<!-- soak: written by node scripts/soak.mjs -->', '<!-- end of soak -->'];

describe('The section of a soak in a document', () => {
  it('replaces what is between the marks, and nothing else', () => {
    const text = ['before', MARKS[0], 'of an earlier run', MARKS[1], 'after'].join('\n');
    const once = withSection(text, 'of this run');
    expect(once).toBe(['before', MARKS[0], '', 'of this run', '', MARKS[1], 'after'].join('\n'));
    expect(withSection(once, 'of this run')).toBe(once);
  });

  it('is refused by a document without the marks', () => {
    expect(() => withSection('text', 'section')).toThrow('lacks the marks');
  });
});
