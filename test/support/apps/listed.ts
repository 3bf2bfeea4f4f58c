import { type LockApp } from './lock-app.js';

/** The keys of all listed locks, sorted. */
export async function keysOf({ locks }: LockApp, prefix = ''): Promise<string[]> {
  const keys: string[] = [];
  for await (const { key } of locks.list({ prefix })) keys.push(key);
  return keys.toSorted();
}
