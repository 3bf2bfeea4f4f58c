import { LockError } from '../../../lib/index.js';

/** What became of a call. */
export type Outcome = { readonly value: unknown } | { readonly error: unknown };

export async function outcomeOf(call: () => unknown): Promise<Outcome> {
  try {
    return { value: await call() };
  } catch (error) {
    return { error };
  }
}

/** Throws unless an error is one of ours, with a code and a text. */
export function checkIsTyped(error: unknown): asserts error is LockError {
  if (!(error instanceof LockError)) throw new Error('The error is not one of ours', { cause: error });
  if (!/^LOCK_[A-Z_]+$/.test(error.code)) throw new Error(`The error has the code ${error.code}`, { cause: error });
  if (error.message.length > 2_000) throw new Error(`The text has ${error.message.length} characters`);
}

/** Throws unless a text says what is wrong: what was expected, or what is unknown, and what was given. */
export function checkSaysWhy({ message }: LockError, name?: string): void {
  if (!/xpected|nknown|cannot|too|holds half|separates|fills nothing|has a lone/.test(message)) {
    throw new Error(`The text does not say what was expected: ${message}`);
  }
  if (name !== undefined && !message.includes(name)) throw new Error(`The text does not name ${name}: ${message}`);
}
