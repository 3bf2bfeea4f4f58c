import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { root } from './planted.js';
import { flawsOfProofs } from './proofs.js';

describe('the tables of proofs', () => {
  it.each(['failure-modes.md', 'proofs.md', 'from-setnx.md'])('in docs/%s name only tests that exist', (name) => {
    expect(flawsOfProofs(join(root, 'docs', name))).toEqual([]);
  });
});

const SPEC = `
  describe('a lock', () => {
    it('is released', () => undefined);
    itOnSingle('is lost', () => undefined);
    it.each([1])('is held %d times', () => undefined);
    cases.push({ name: 'a case' });
    expect('it is not a title');
  });`;

const FAULTS = `
  const DRAW = { stall: () => 1 };
  on('server stopped', () => stop());`;

describe('the check of these tables', () => {
  let folder: string;
  beforeEach(() => (folder = mkdtempSync(join(tmpdir(), 'proofs-'))));
  afterEach(() => rmSync(folder, { recursive: true }));

  function flawsOf(...proofs: string[]): string[] {
    writeFileSync(join(folder, 'a.spec.ts'), SPEC);
    writeFileSync(join(folder, 'faults.ts'), FAULTS);
    const document = join(folder, 'table.md');
    writeFileSync(document, proofs.map((proof, i) => `| ${i + 1} | what | how | ${proof} |\n`).join(''));
    return flawsOfProofs(document);
  }

  it('accepts titles of every kind, several of them, and headings', () => {
    const titles = ['is released', 'is lost', 'is held', 'a lock', 'a case'].map(
      (title) => `[a](a.spec.ts) "${title}"`,
    );
    expect(flawsOf(...titles, '[a](a.spec.ts) "is lost", "a lock"; [b](b.md#a-heading)')).toEqual([]);
  });

  it('accepts faults by their whole names', () => {
    expect(flawsOf('[simulation](faults.ts) "stall"; [chaos](faults.ts) "server stopped"')).toEqual([]);
    expect(flawsOf('[chaos](faults.ts) "stopped"')).toEqual(['1: no test in faults.ts says "stopped"']);
  });

  it.each([
    ['a test that is gone', '[a](a.spec.ts) "is renewed"', 'no test in a.spec.ts says "is renewed"'],
    ['the second of two', '[a](a.spec.ts) "is lost", "is renewed"', 'no test in a.spec.ts says "is renewed"'],
    ['a text that is not a title', '[a](a.spec.ts) "not a title"', 'no test in a.spec.ts says "not a title"'],
    ['a file that is gone', '[b](b.spec.ts) "is lost"', 'no such file: b.spec.ts'],
    ['a file without a title', '[a](a.spec.ts)', 'no title: [a](a.spec.ts)'],
    ['a document without a heading', '[b](b.md)', 'no heading: [b](b.md)'],
    ['a row without a proof', '', 'no proof'],
    ['a promise of a proof', '[a](a.spec.ts) "is lost"; later', 'neither a test nor a heading: later'],
  ])('finds %s', (_what, proof, flaw) => expect(flawsOf(proof)).toEqual([`1: ${flaw}`]));

  it('finds a number that is missing, and a document without a table', () => {
    const document = join(folder, 'table.md');
    writeFileSync(document, '| 2 | what | how | [b](b.md#heading) |\n');
    expect(flawsOfProofs(document)).toEqual(['2: its number should be 1']);
    writeFileSync(document, '');
    expect(flawsOfProofs(document)).toEqual([`${document}: no proofs`]);
  });
});
