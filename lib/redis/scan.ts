import { type Redis } from 'ioredis';
import { type CommandRunner } from './connection/command-runner.js';
import { isCluster } from './connection/redis-client.js';
import { type RedisKeys } from './codec/redis-keys.js';

/** Which keys are looked for, and how long each answer may take. */
interface ScanRequest {
  readonly keys: RedisKeys;
  readonly prefix: string;
  readonly timeoutMs: number;
}

/** The keys under a prefix, of all nodes of a cluster; each once, though SCAN may tell it again. */
export async function* scanKeys(commands: CommandRunner, request: ScanRequest): AsyncGenerator<string> {
  const seen = new Set<string>();
  const asked = commands.forAllNodes;
  try {
    yield* scanAll(asked, request, seen);
  } catch (error) {
    // This may have been what found a node silent: another client serves in its place.
    const other = commands.forAllNodes;
    if (other === asked) throw error;
    yield* scanAll(other, request, seen);
  }
}

async function* scanAll(
  commands: CommandRunner,
  { keys, prefix, timeoutMs }: ScanRequest,
  seen: Set<string>,
): AsyncGenerator<string> {
  const client = commands.liveClient();
  // ioredis adds its own key prefix to keys, but neither to a pattern nor to what SCAN gives; a cluster's nodes lack it.
  const before = client.options.keyPrefix ?? '';
  const pattern = keys.pattern(prefix, before);
  const asked = { key: `${prefix}*`, timeoutMs };
  // A cluster knows all of its nodes when it is ready.
  const nodes: readonly Redis[] = isCluster(client)
    ? await commands.ask(client, async () => client.nodes('master'), asked)
    : [client];
  for (const node of nodes) {
    let cursor = '0';
    do {
      const scan = () => node.scan(cursor, 'MATCH', pattern, 'COUNT', 100);
      const [next, found] = await commands.ask(client, scan, { ...asked, node: isCluster(client) ? node : undefined });
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
