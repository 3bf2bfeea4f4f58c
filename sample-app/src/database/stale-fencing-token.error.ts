/** The database has seen a later fencing token: the caller lost its lock without noticing. */
export class StaleFencingTokenError extends Error {
  override readonly name = 'StaleFencingTokenError';

  constructor(what: string, fencingToken: number | null) {
    super(`${what} is refused: a later holder wrote before the one with the fencing token ${fencingToken}.`);
  }
}
