import { type LockApp } from './lock-app.js';

/** The keys of the locks that are held. */
export async function keysOf({ locks }: LockApp, prefix = ''): Promise<string[]> {
  const keys: string[] = [];
  for await (const { key } of locks.list({ prefix })) keys.push(key);
  return keys.toSorted();
}
