import { callForeign } from './foreign-code.js';

/** Where the core says what nobody awaits. It never throws: see `unfelt`. */
export interface Reporter {
  debug(message: string): void;
  warn(message: string): void;
  error(message: string): void;
}

/** Reports to a logger of others, such as a Nest `Logger`. One that throws loses the line, and nothing else. */
export function unfelt(logger: Reporter): Reporter {
  const say = (level: keyof Reporter) => (message: string) =>
    callForeign(
      () => logger[level](message),
      () => undefined,
    );
  return { debug: say('debug'), warn: say('warn'), error: say('error') };
}

/** The text of whatever was thrown, also of what cannot be asked for one. */
export function messageOf(error: unknown): string {
  try {
    return String(error instanceof Error ? error.message : error);
  } catch {
    return `a value of type ${typeof error} that has no text`;
  }
}

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
