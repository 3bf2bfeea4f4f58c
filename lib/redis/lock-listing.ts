import { LockConfigurationError } from '../core/lock.errors.js';
import { type LockState } from '../core/lock-store.js';
import { type CommandRunner } from './command-runner.js';
import { isCluster } from './redis-client.js';
import { type RedisKeys } from './redis-keys.js';

export interface ListOptions {
  readonly prefix: string;
  readonly limit: number;
}

/** @throws LockConfigurationError */
export function checkListOptions({ prefix, limit }: ListOptions): void {
  if (typeof prefix !== 'string' || /\p{Surrogate}/u.test(prefix)) {
    throw new LockConfigurationError(`Expected \`prefix\` to be a well-formed string, got ${JSON.stringify(prefix)}.`);
  }
  if (!Number.isSafeInteger(limit) || limit < 1) {
    throw new LockConfigurationError(`Expected \`limit\` to be a whole number from 1, got ${String(limit)}.`);
  }
}

/** The keys under a prefix, of all nodes of a cluster; each once, though SCAN may tell it again. */
export async function* scanKeys(
  commands: CommandRunner,
  keys: RedisKeys,
  prefix: string,
  timeoutMs: number,
): AsyncGenerator<string> {
  const client = commands.liveClient();
  const seen = new Set<string>();
  // ioredis adds its own key prefix to keys, but neither to a pattern nor to what SCAN gives; a cluster's nodes lack it.
  const before = client.options.keyPrefix ?? '';
  const pattern = keys.pattern(prefix, before);
  for (const node of isCluster(client) ? client.nodes('master') : [client]) {
    let cursor = '0';
    do {
      const scan = () => node.scan(cursor, 'MATCH', pattern, 'COUNT', 100);
      const [next, found] = await commands.ask(client, scan, { key: `${prefix}*`, timeoutMs });
      const named = found.map((stored) => keys.keyOf(stored.slice(before.length)));
      for (const key of new Set(named.filter((name) => name.startsWith(prefix) && !seen.has(name)))) {
        seen.add(key);
        yield key;
      }
      cursor = next;
    } while (cursor !== '0');
  }
}

/** The locks among the keys that are held or waited for; a free one is there only to remember its token. */
export async function* listLocks(
  keys: AsyncIterable<string>,
  limit: number,
  inspect: (key: string) => Promise<LockState>,
): AsyncGenerator<LockState> {
  let count = 0;
  for await (const key of keys) {
    const state = await inspect(key).catch(noneOfOurs);
    if (!state || (state.mode === 'free' && state.waiters === 0)) continue;
    yield state;
    count += 1;
    if (count >= limit) return;
  }
}

/** A key of another type under the same prefix belongs to somebody else. */
function noneOfOurs(error: Error): undefined {
  if (!/\bWRONGTYPE\b/.test(error.message)) throw error;
}
