/** Rows of cells, all with as many as there are titles. The cells are printable. */
export interface Table {
  readonly titles: readonly string[];
  readonly rows: readonly (readonly string[])[];
}

const GAP = '  ';
/** No column is made narrower than this to fit the terminal. */
const NARROWEST = 8;

const WIDE =
  /^(?:\p{Emoji_Presentation}|[\u1100-\u115f\u2e80-\u303e\u3041-\ua4cf\uac00-\ud7a3\uf900-\ufaff\ufe30-\ufe6f\uff00-\uff60\uffe0-\uffe6\u{20000}-\u{3fffd}])/u;

const characters = new Intl.Segmenter('en', { granularity: 'grapheme' });

const charactersOf = (text: string): string[] => [...characters.segment(text)].map(({ segment }) => segment);

const widthOf = (text: string): number =>
  // Most texts have only characters of one column.
  /^[\x20-\x7e]*$/.test(text)
    ? text.length
    : charactersOf(text).reduce((width, char) => width + (WIDE.test(char) ? 2 : 1), 0);

/** Cuts a text to so many columns of the terminal; a cut one ends with `…`. */
export function cutTo(text: string, width: number): string {
  if (widthOf(text) <= width) return text;
  let cut = '';
  let used = 0;
  for (const char of charactersOf(text)) {
    used += WIDE.test(char) ? 2 : 1;
    if (used > width - 1) break;
    cut += char;
  }
  return `${cut}…`;
}

/** Writes a table line by line. `columns`: the width of the terminal, to which long cells are cut; null: nothing is cut. */
export function tableLines({ titles, rows }: Table, columns: number | null): string[] {
  const all = [titles, ...rows];
  const widths = titles.map((_title, i) => all.reduce((width, row) => Math.max(width, widthOf(row[i]!)), 0));
  if (columns !== null) shrink(widths, columns);
  return all.map((row) => {
    const line = row
      .map((cell, i) => padded(cutTo(cell, widths[i]!), widths[i]!))
      .join(GAP)
      .trimEnd();
    return columns === null ? line : cutTo(line, columns);
  });
}

/** Takes what is missing from the widest column, again and again. */
function shrink(widths: number[], columns: number): void {
  const total = (): number => widths.reduce((sum, width) => sum + width, GAP.length * (widths.length - 1));
  for (let over = total() - columns; over > 0; over = total() - columns) {
    const sorted = [...widths].sort((a, b) => b - a);
    const [widest, next = 0] = [sorted[0]!, sorted.find((width) => width < sorted[0]!)];
    if (widest <= NARROWEST) return;
    widths[widths.indexOf(widest)] = Math.max(widest - over, Math.min(next, widest - 1), NARROWEST);
  }
}

const padded = (text: string, width: number): string => text + ' '.repeat(Math.max(width - widthOf(text), 0));
