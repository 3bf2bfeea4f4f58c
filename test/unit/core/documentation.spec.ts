import { readdirSync, readFileSync } from 'node:fs';
import { SECTIONS, sectionText } from '../../../lib/core/documentation.js';

const filesIn = (folder: string, end: string): string[] =>
  readdirSync(folder, { recursive: true, encoding: 'utf8' })
    .filter((path) => path.endsWith(end))
    .map((path) => readFileSync(`${folder}/${path}`, 'utf8'));

describe('a section of the documentation in a text', () => {
  const pages = filesIn('docs', '.md');

  it.each(Object.entries(SECTIONS))(
    '%s is in the documents, on the page that the text names',
    (name, { page, heading }) => {
      const document = pages.find((text) => text.startsWith(`# ${page}\n`));
      expect(document?.split('\n')).toContain(`## ${heading}`);
      expect(sectionText(name as keyof typeof SECTIONS)).toContain(`"${heading}" on the page "${page}"`);
    },
  );

  it('is never a file of the repository, which users do not have', () => {
    const lines = filesIn('lib', '.ts').flatMap((text) => text.split('\n'));
    expect(lines.filter((line) => /docs\/[\w/-]+\.md/.test(line) && !/^\s*(\/\/|\/?\*)/.test(line))).toEqual([]);
  });
});
