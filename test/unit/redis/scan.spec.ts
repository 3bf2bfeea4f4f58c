import { LockStoreError } from '../../../lib/core/lock.errors.js';
import { RedisKeys } from '../../../lib/redis/codec/redis-keys.js';
import { type Connection } from '../../../lib/redis/connection/connection.js';
import { scanKeys } from '../../../lib/redis/scan.js';

/** Lists the keys of a server that answers with these cursors, and one key each. */
async function scanned(nextCursor: (call: number) => number): Promise<string[]> {
  let call = 0;
  const client = {
    isCluster: false,
    scan: async () => [String(nextCursor((call += 1))), [`lock:key-${call % 3}`]] as const,
  };
  const commands = { liveClient: () => client, send: (send: () => unknown) => send() };
  const runner = commands as unknown as Connection;
  const found: string[] = [];
  const keys = new RedisKeys('lock:', undefined);
  for await (const key of scanKeys(runner, keys, { prefix: '' }, 5_000)) found.push(key);
  return found;
}

describe('the keys that SCAN finds', () => {
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

/** A node of a cluster that has one key. */
const nodeWith = (key: string) => ({ scan: async () => ['0', [`lock:${key}`]] as const });

/** A node that hangs, until the deadline of the command. */
const hanging = {
  scan: async (): Promise<never> => {
    throw new LockStoreError('no answer within 5000 ms', { key: '*' });
  },
};

/** Lists the keys of a cluster with some masters, and with others once it has been asked again. */
async function scannedCluster(before: readonly object[], after: readonly object[]): Promise<string[]> {
  let masters = before;
  const refreshSlots = (onDone: () => void): void => {
    masters = after;
    onDone();
  };
  const client = { isCluster: true, nodes: () => masters, refreshSlots };
  const commands = { liveClient: () => client, send: (send: () => unknown) => send() };
  const runner = commands as unknown as Connection;
  const found: string[] = [];
  for await (const key of scanKeys(runner, new RedisKeys('lock:', undefined), { prefix: '' })) found.push(key);
  return found;
}

describe('the keys that SCAN finds on the nodes of a cluster', () => {
  const [first, last] = [nodeWith('a'), nodeWith('c')];

  it('include those of the node that replaces one which does not answer, each once', async () => {
    expect(await scannedCluster([first, hanging, last], [first, last, nodeWith('b')])).toEqual(['a', 'c', 'b']);
  });

  it('end in an error when a node does not answer, and none replaces it', async () => {
    await expect(scannedCluster([first, hanging, last], [first, hanging, last])).rejects.toThrow('no answer');
  });
});
