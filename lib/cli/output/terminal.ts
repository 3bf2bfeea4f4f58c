import { createInterface } from 'node:readline/promises';

/** Rows of printable cells, one per title. */
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

/** Cuts a text to this number of columns of the terminal; a cut text ends with `…`. */
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

/** Shrinks the widest column repeatedly. */
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

export interface Streams {
  readonly input: NodeJS.ReadableStream & { readonly isTTY?: boolean | undefined };
  readonly output: Output;
  readonly errors: Output;
}

type Output = NodeJS.WritableStream & {
  readonly isTTY?: boolean | undefined;
  readonly columns?: number | undefined;
  readonly rows?: number | undefined;
  readonly destroyed?: boolean;
};

const SIGNALS = ['SIGINT', 'SIGTERM', 'SIGHUP', 'SIGQUIT'] as const;

const STYLES = { bold: 1, dim: 2, red: 31, green: 32, yellow: 33 } as const;

export type Style = keyof typeof STYLES;

export class Terminal {
  /** Resolves when the signal is aborted. */
  readonly ended: Promise<void>;

  constructor(
    private readonly streams: Streams,
    private readonly env: Readonly<Record<string, string | undefined>>,
    private readonly end: AbortController,
  ) {
    this.ended = new Promise((resolve) => end.signal.addEventListener('abort', () => resolve(), { once: true }));
  }

  /** Ends a long-running command: by Ctrl-C, or when the output is closed. */
  get signal(): AbortSignal {
    return this.end.signal;
  }

  /** From now on, Ctrl-C and similar signals abort `signal`; otherwise, and the second time, they end the process at once. */
  endsBySignals(): void {
    const onSignal = (): void => this.end.abort();
    for (const signal of SIGNALS) process.on(signal, onSignal);
    void this.ended.then(() => SIGNALS.forEach((signal) => process.off(signal, onSignal)));
  }

  /** Whether the output supports escape sequences. */
  get canPaint(): boolean {
    return this.streams.output.isTTY === true && this.env['TERM'] !== 'dumb';
  }

  /** The number of columns; null: lines may have any length. */
  get columns(): number | null {
    const { isTTY, columns = 80 } = this.streams.output;
    return isTTY ? columns : null;
  }

  styled(text: string, style: Style): string {
    const hasStyles = this.canPaint && !this.env['NO_COLOR'];
    return hasStyles ? `\x1b[${STYLES[style]}m${text}\x1b[0m` : text;
  }

  write(text: string): void {
    if (!this.streams.output.destroyed) this.streams.output.write(text);
  }

  line(text = ''): void {
    this.write(`${text}\n`);
  }

  /** The lines of a table, cut to the terminal, with bold titles. */
  linesOf(table: Table): string[] {
    const [titles = '', ...rows] = tableLines(table, this.columns);
    return [this.styled(titles, 'bold'), ...rows];
  }

  table(table: Table): void {
    for (const line of this.linesOf(table)) this.line(line);
  }

  /** Replaces the content of the screen. */
  repaint(lines: readonly string[]): void {
    const { rows = 24 } = this.streams.output;
    const fitting = lines.length < rows ? lines : [...lines.slice(0, rows - 2), '…'];
    const cut = fitting.map((line) => (line.startsWith('\x1b') ? line : cutTo(line, this.columns ?? Infinity)));
    this.write(`\x1b[H\x1b[2J${cut.join('\n')}\n`);
  }

  /**
   * Takes the whole screen until the returned function restores it; so does the end of the signal, and Ctrl-Z until the
   * process continues. `paint` repaints its content.
   */
  takeScreen(paint: () => void): () => void {
    let isTaken = false;
    const take = (): void => {
      if (!isTaken) this.write('\x1b[?1049h\x1b[?25l');
      isTaken = true;
    };
    const giveBack = (): void => {
      if (isTaken) this.write('\x1b[?25h\x1b[?1049l');
      isTaken = false;
    };
    const onStop = (): void => {
      giveBack();
      process.kill(process.pid, 'SIGSTOP');
    };
    const onContinue = (): void => {
      take();
      paint();
    };
    const end = (): void => {
      process.off('SIGTSTP', onStop).off('SIGCONT', onContinue);
      giveBack();
    };
    process.on('SIGTSTP', onStop).on('SIGCONT', onContinue);
    this.signal.addEventListener('abort', end, { once: true });
    take();
    return end;
  }

  /** Prints a message that is not a result. */
  complain(text: string): void {
    if (!this.streams.errors.destroyed) this.streams.errors.write(`${text}\n`);
  }

  get canAsk(): boolean {
    return this.streams.input.isTTY === true;
  }

  /** Asks a question that `y` and `yes` agree to. */
  async asks(question: string): Promise<boolean> {
    const { input, errors } = this.streams;
    const lines = createInterface({ input, output: errors });
    // Without an answer (Ctrl-D), the question would stay open.
    const closed = new Promise<string>((resolve) => void lines.once('close', () => resolve('')));
    try {
      const answer = await Promise.race([lines.question(`${question} [y/N] `, { signal: this.signal }), closed]);
      return /^\s*y(es)?\s*$/i.test(answer);
    } catch {
      return false;
    } finally {
      lines.close();
    }
  }
}
