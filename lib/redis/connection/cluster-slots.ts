import { type Cluster, type Redis } from 'ioredis';
import { inOrder } from '../../core/key.js';
import { type RedisClient, isCluster } from './redis-client.js';
import { type ServerAddress, addressText, reachedBy, readAddress } from './server-address.js';

const SLOTS = 16_384;

/**
 * Splits keys into groups that one script may name: all on one Redis, those of one slot on a cluster. Everybody gets the
 * same order, by slot and then by the bytes of the storage key, so that nobody waits in a circle.
 */
export function groupKeys(
  keys: readonly string[],
  storageKey: (key: string) => string,
  client: RedisClient,
): readonly (readonly string[])[] {
  const before = client.options.keyPrefix ?? '';
  const groups = new Map<number, string[]>();
  for (const [stored, key] of inOrder(keys, storageKey)) {
    const slot = isCluster(client) ? slotOf(before + stored) : 0;
    groups.set(slot, [...(groups.get(slot) ?? []), key]);
  }
  return [...groups].sort(([a], [b]) => a - b).map(([, group]) => group);
}

/** The cluster slot of a key: CRC16 (XMODEM) of its hash tag, or of all of it when it has none. */
export function slotOf(key: string): number {
  const tag = /^[^{]*\{([^}]+)\}/s.exec(key)?.[1] ?? key;
  let crc = 0;
  for (const byte of Buffer.from(tag)) {
    crc ^= byte << 8;
    for (let bit = 0; bit < 8; bit++) crc = (crc & 0x8000 ? (crc << 1) ^ 0x1021 : crc << 1) & 0xffff;
  }
  return crc % SLOTS;
}

/** The address of the master that serves a storage key, as far as the cluster's client knows. */
export function masterAddressOf(cluster: Cluster, storageKey: string): ServerAddress | undefined {
  const told = cluster.slots[slotOf((cluster.options.keyPrefix ?? '') + storageKey)]?.[0];
  // What a node says of a slot that has moved, ioredis keeps untranslated.
  return told === undefined ? undefined : reachedBy(readAddress(told), cluster.options.natMap);
}

/** Which server serves a storage key, as far as the client knows: an address of a cluster, else the only one. */
export function serverOf(client: RedisClient, storageKey: string): string {
  const address = isCluster(client) && masterAddressOf(client, storageKey);
  return address ? addressText(address) : '';
}

/** The master that serves a storage key, as far as the cluster's client knows. */
export function masterOf(cluster: Cluster, storageKey: string): Redis | undefined {
  const server = serverOf(cluster, storageKey);
  return cluster.nodes('master').find(({ options }) => addressText(options) === server);
}
