import { LockError } from '../../core/lock.errors.js';
import { errorText } from '../error-text.js';

/** What each check is about, in the order in which they are printed. */
export type CheckName =
  | 'server'
  | 'eviction'
  | 'persistence'
  | 'replication'
  | 'cluster'
  | 'quorum'
  | 'clock'
  | 'rights'
  | 'lock'
  | 'pub/sub'
  | 'leftovers';

/** One result of the doctor. */
export interface DoctorFinding {
  readonly check: CheckName;
  /** `skipped`: it could not be checked, or must not be (`--read-only`). */
  readonly level: 'ok' | 'warn' | 'problem' | 'skipped';
  /** `host:port`; empty: it is about all servers together. */
  readonly server: string;
  /** What was found, and what it means: whole sentences. */
  readonly text: string;
  /** What to do: whole sentences; empty where there is nothing to do. */
  readonly advice: string;
}

/** A finding without its server. */
export type Result = Pick<DoctorFinding, 'level' | 'text'> & { readonly advice?: string };

export const ok = (text: string): Result => ({ level: 'ok', text });
export const warn = (text: string, advice: string): Result => ({ level: 'warn', text, advice });
export const problem = (text: string, advice: string): Result => ({ level: 'problem', text, advice });
export const skipped = (text: string, advice = ''): Result => ({ level: 'skipped', text, advice });

/** Runs a check, which may ask Redis. One that Redis did not answer, or refused, is a finding, too. */
export async function checked(
  check: CheckName,
  server: string,
  run: () => Promise<readonly Result[]>,
): Promise<DoctorFinding[]> {
  const results = await run().catch((error: unknown) => {
    if (!(error instanceof LockError)) throw error;
    return [problem('This could not be checked.', errorText(error))];
  });
  return results.map(({ level, text, advice = '' }) => ({ check, level, server, text, advice }));
}

/** The text of an error with which Redis refused a command; null: it was something else. */
export function refusalOf(error: unknown): string | null {
  const cause: unknown = error instanceof LockError ? error.cause : error;
  return cause instanceof Error && cause.name === 'ReplyError' ? cause.message : null;
}
