/** Where the core says what nobody awaits; a Nest `Logger` fits. */
export interface Reporter {
  debug(message: string): void;
  warn(message: string): void;
  error(message: string): void;
}

/** The text of whatever was thrown. */
export const messageOf = (error: unknown): string => (error instanceof Error ? error.message : String(error));

/** The same without its full stop, to stand inside a sentence. */
export const reasonOf = (error: unknown): string => messageOf(error).replace(/\.$/, '');

/** Says a line unless it is the one that was said last: an outage has the same to say at every try. */
export function withoutRepeats(say: (line: string) => void): (line: string) => void {
  let last: string | undefined;
  return (line) => {
    if (line !== last) say(line);
    last = line;
  };
}
