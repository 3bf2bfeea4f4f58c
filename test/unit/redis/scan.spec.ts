import { LockStoreError } from '../../../lib/core/lock.errors.js';
import { RedisKeys } from '../../../lib/redis/codec/redis-keys.js';
import { type CommandRunner } from '../../../lib/redis/connection/command-runner.js';
import { scanKeys } from '../../../lib/redis/scan.js';

/** Lists the keys of a server that answers with these cursors, and one key each. */
async function scanned(nextCursor: (call: number) => number): Promise<string[]> {
  let call = 0;
  const client = {
    isCluster: false,
    keyPrefix: '',
    scan: async () => [String(nextCursor((call += 1))), [`lock:key-${call % 3}`]] as const,
  };
  const commands = { liveClient: () => client, send: (_client: unknown, send: () => unknown) => send() };
  const runner = { forAllNodes: commands } as unknown as CommandRunner;
  const found: string[] = [];
  const keys = new RedisKeys('lock:', undefined);
  for await (const key of scanKeys(runner, keys, '', 5_000)) found.push(key);
  return found;
}

describe('the keys that SCAN finds', () => {
  it('are listed once each, up to the cursor 0', async () => {
    expect(await scanned((call) => (call < 10 ? call : 0))).toEqual(['key-1', 'key-2', 'key-0']);
  });

  it('are listed when a cursor comes again, as it does while the table of the server grows', async () => {
    expect(await scanned((call) => (call < 50 ? 1 + (call % 2) : 0))).toHaveLength(3);
  });

  it.each([1, 2, 3, 1_000])('end in an error when %i cursors come again and again', async (period) => {
    await expect(scanned((call) => 1 + (call % period))).rejects.toThrow(LockStoreError);
  });

  it('end in an error when ever new cursors come', async () => {
    await expect(scanned((call) => call)).rejects.toThrow('without end');
  });
});
