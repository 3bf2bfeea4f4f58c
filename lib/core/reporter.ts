/** The log of the core, for errors that reach no caller. It must not throw: see `harmless`. */
export interface Reporter {
  debug(message: string): void;
  warn(message: string): void;
  error(message: string): void;
}

/** A foreign error message may have any length, and is logged. */
const MAX_MESSAGE = 1_000;

/** Returns the text of a thrown value, even if the value has no text or throws on access. */
export function messageOf(error: unknown): string {
  try {
    const text = String(error instanceof Error ? error.message : error);
    return text.length > MAX_MESSAGE ? `${text.slice(0, MAX_MESSAGE)}…` : text;
  } catch {
    return `a value of type ${typeof error} that has no text`;
  }
}

/** The same without the full stop, for use inside a sentence. */
export const reasonOf = (error: unknown): string => messageOf(error).replace(/\.$/, '');

/** Reports a line unless it repeats the last one: during an outage, every try fails in the same way. */
export function withoutRepeats(say: (line: string) => void): (line: string) => void {
  let last: string | undefined;
  return (line) => {
    if (line !== last) say(line);
    last = line;
  };
}
