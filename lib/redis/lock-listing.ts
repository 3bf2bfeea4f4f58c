import { type CommandRunner } from './command-runner.js';
import { isCluster } from './redis-client.js';
import { type RedisKeys } from './redis-keys.js';

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
    const asked = { key: `${prefix}*`, timeoutMs, node: node === client ? undefined : node };
    let cursor = '0';
    do {
      const scan = () => node.scan(cursor, 'MATCH', pattern, 'COUNT', 100);
      const [next, found] = await commands.ask(client, scan, asked);
      const named = found.map((stored) => keys.keyOf(stored.slice(before.length)));
      for (const key of new Set(named.filter((name) => name.startsWith(prefix) && !seen.has(name)))) {
        seen.add(key);
        yield key;
      }
      cursor = next;
    } while (cursor !== '0');
  }
}

/** A key of another type under the same prefix belongs to somebody else. */
export function noneOfOurs(error: Error): undefined {
  if (!/\bWRONGTYPE\b/.test(error.message)) throw error;
}
