// What servers answer is checked here, whichever library received it.

/** The answer to TIME, in microseconds. */
export function readTime(answer: unknown): number {
  const [seconds, micros, ...rest] = Array.isArray(answer) ? answer.map(String) : [];
  const isTime = [seconds, micros].every((part) => part !== undefined && /^\d+$/.test(part)) && rest.length === 0;
  if (isTime) return Number(seconds) * 1_000_000 + Number(micros);
  throw new Error('the answer to TIME is no time');
}

export function readScan(answer: unknown): [cursor: string, keys: string[]] {
  const [next, keys] = Array.isArray(answer) ? (answer as unknown[]) : [];
  const isRight = /^\d+$/.test(String(next)) && Array.isArray(keys) && keys.every((key) => typeof key === 'string');
  if (isRight) return [String(next), keys];
  throw new Error('the answer to SCAN has no cursor and keys');
}

/** The answer to WAIT: a number of replicas. */
export function readWait(answer: unknown): number {
  if (Number.isSafeInteger(answer) && (answer as number) >= 0) return answer as number;
  throw new Error('the answer to WAIT is no number');
}
