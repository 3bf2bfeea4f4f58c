import { LockStoreError } from '../core/lock.errors.js';
import { type SingleClient } from './client/redis-client.js';
import { type RedisKeys } from './codec/redis-keys.js';
import { type CommandRunner } from './connection/command-runner.js';
import { OPERATOR_TIMEOUT_MS } from './timing.js';

/**
 * Finds the keys of locks, held or not, that begin with `prefix`, by SCAN on all nodes; each once, though SCAN may return
 * it again. `listLocks` of the core decides which of them to list.
 */
export async function* scanKeys(commands: CommandRunner, keys: RedisKeys, prefix: string): AsyncGenerator<string> {
  const seen = new Set<string>();
  const first = commands.forAllNodes;
  try {
    yield* scanNodes(first, keys, prefix, seen);
  } catch (error) {
    // The failure may have shown that a node is silent; then another client serves in its place.
    const second = commands.forAllNodes;
    if (second === first) throw error;
    yield* scanNodes(second, keys, prefix, seen);
  }
}

async function* scanNodes(
  commands: CommandRunner,
  keys: RedisKeys,
  prefix: string,
  seen: Set<string>,
): AsyncGenerator<string> {
  const client = commands.liveClient();
  // ioredis adds its own key prefix to keys, but neither to a pattern nor to the result of SCAN; nodes of a cluster lack it.
  const before = client.keyPrefix;
  const pattern = keys.pattern(prefix, before);
  const request = { key: `${prefix}*`, timeoutMs: OPERATOR_TIMEOUT_MS };
  // A cluster knows all of its nodes when it is ready.
  const nodes: readonly SingleClient[] = client.isCluster
    ? await commands.send(client, async () => client.nodes('master'), request)
    : [client];
  for (const node of nodes) {
    let cursor = '0';
    const cursors = new Set<string>();
    let repeats = 0;
    do {
      const scan = () => node.scan(cursor, pattern, 100);
      const to = { node: client.isCluster ? node : undefined };
      const [next, found] = await commands.send(client, scan, { ...request, ...to });
      const named = found.map((stored) => keys.keyOf(stored.slice(before.length)));
      for (const key of new Set(named.filter((name) => name.startsWith(prefix) && !seen.has(name)))) {
        seen.add(key);
        yield key;
      }
      if (cursors.has(next) && (repeats += 1) > MAX_REPEATS) throw endlessError(request.key);
      cursors.add(next);
      cursor = next;
    } while (cursor !== '0');
  }
}

/** A cursor may come twice while the server changes the size of its table; an endless SCAN has no other end. */
const MAX_REPEATS = 100;

const endlessError = (key: string): LockStoreError =>
  new LockStoreError(`Redis sends the same cursors of SCAN for "${key}" again and again. Check what answers there.`, {
    key,
  });

/** Passes over a key of another type: something other than a lock is stored under the same prefix. */
export function ignoreWrongType(error: Error): undefined {
  if (!/\bWRONGTYPE\b/.test(error.message)) throw error;
}
