import { readFileSync, writeFileSync } from 'node:fs';
import { dirname, relative } from 'node:path';
import { type SoakResult } from './soak.js';
import { table } from './text.js';

const BEGIN = '<!-- soak: written by node scripts/soak.mjs -->';
const END = '<!-- end of soak -->';

/** Writes what a soak found between the marks of a document. */
export function writeSection(file: string, result: SoakResult & { command: string; picture: string }): void {
  const text = readFileSync(file, 'utf8');
  writeFileSync(file, withSection(text, sectionOf({ ...result, picture: relative(dirname(file), result.picture) })));
}

/** @throws Error if the text does not have both marks */
export function withSection(text: string, section: string): string {
  const [from, to] = [text.indexOf(BEGIN), text.indexOf(END)];
  if (from < 0 || to < from) throw new Error(`The document lacks the marks ${BEGIN} and ${END}.`);
  return `${text.slice(0, from)}${BEGIN}\n\n${section}\n\n${text.slice(to)}`;
}

const sectionOf = ({
  verdicts,
  summary,
  command,
  picture,
}: SoakResult & { command: string; picture: string }): string =>
  [`\`${command}\` printed:`, `\`\`\`text\n${summary}\n\`\`\``, table(verdicts), `![The curves](${picture})`].join(
    '\n\n',
  );
