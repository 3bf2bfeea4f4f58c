import { createInterface } from 'node:readline/promises';
import { cutTo, type Table, tableLines } from './table.js';

/** What a command needs of the process that it runs in. */
export interface Streams {
  readonly input: NodeJS.ReadableStream & { readonly isTTY?: boolean | undefined };
  readonly output: Output;
  readonly errors: Output;
}

/** The size is that of a terminal. */
type Output = NodeJS.WritableStream & {
  readonly isTTY?: boolean | undefined;
  readonly columns?: number | undefined;
  readonly rows?: number | undefined;
  readonly destroyed?: boolean;
};

const SIGNALS = ['SIGINT', 'SIGTERM', 'SIGHUP', 'SIGQUIT'] as const;

const STYLES = { bold: 1, dim: 2, red: 31, green: 32, yellow: 33 } as const;

export type Style = keyof typeof STYLES;

/** Where a command prints, and asks. */
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

  /** Ends a command that would go on: by Ctrl-C, and when nobody reads the output any more. */
  get signal(): AbortSignal {
    return this.end.signal;
  }

  /** From now on, Ctrl-C and the like abort the signal; otherwise, and the second time, they end the process at once. */
  endsBySignals(): void {
    const onSignal = (): void => this.end.abort();
    for (const signal of SIGNALS) process.on(signal, onSignal);
    void this.ended.then(() => SIGNALS.forEach((signal) => process.off(signal, onSignal)));
  }

  /** Whether a person looks at the output. */
  get isScreen(): boolean {
    return this.streams.output.isTTY === true;
  }

  /** Whether the output acts on escapes. */
  get canPaint(): boolean {
    return this.isScreen && this.env['TERM'] !== 'dumb';
  }

  /** How many columns it has; null: lines may be of any length. */
  get columns(): number | null {
    return this.isScreen ? (this.streams.output.columns ?? 80) : null;
  }

  get rows(): number {
    return this.streams.output.rows ?? 24;
  }

  /** A text with a style, where the output has styles. */
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

  /** Replaces what is on the screen. */
  repaint(lines: readonly string[]): void {
    const fitting = lines.length < this.rows ? lines : [...lines.slice(0, this.rows - 2), '…'];
    const cut = fitting.map((line) => (line.startsWith('\x1b') ? line : cutTo(line, this.columns ?? Infinity)));
    this.write(`\x1b[H\x1b[2J${cut.join('\n')}\n`);
  }

  /**
   * Takes the whole screen until the returned function gives it back as it was; so does the end of the signal, and Ctrl-Z until the
   * process goes on. `paint` shows again what was on it.
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

  /** Prints something that is no result. */
  complain(text: string): void {
    if (!this.streams.errors.destroyed) this.streams.errors.write(`${text}\n`);
  }

  /** Whether somebody can answer a question. */
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
