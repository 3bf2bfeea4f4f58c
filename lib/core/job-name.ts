import { createHash } from 'node:crypto';
import { isWellFormed } from './key.js';

const MAX_LENGTH = 128;
const KEPT_LENGTH = 96;

/** The name under which a store knows a job: `Class.method`; a very long one is cut and ends with a hash of all of it. */
export function jobName(where: string): string {
  if (where.length <= MAX_LENGTH && isWellFormed(where)) return where;
  const hash = createHash('sha256').update(where, 'utf16le').digest('base64url').slice(0, 22);
  // Cut in the middle of a character it would be ill-formed.
  return `${Buffer.from(where.slice(0, KEPT_LENGTH)).toString()}~${hash}`;
}
