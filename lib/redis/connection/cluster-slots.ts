import type { Cluster, Redis } from 'ioredis';
import { type RedisClient, isCluster } from './redis-client.js';
import { type ServerAddress, addressText, reachedBy, readAddress } from './server-address.js';

const SLOTS = 16_384;

/** The cluster slot of a key: CRC16 (XMODEM) of its hash tag, or of the whole key when it has none. */
export function slotOf(key: string): number {
  const tag = /^[^{]*\{([^}]+)\}/s.exec(key)?.[1] ?? key;
  let crc = 0;
  for (const byte of Buffer.from(tag)) {
    crc ^= byte << 8;
    for (let bit = 0; bit < 8; bit++) crc = (crc & 0x8000 ? (crc << 1) ^ 0x1021 : crc << 1) & 0xffff;
  }
  return crc % SLOTS;
}

/** The address of the master that serves a storage key, as far as the cluster client knows. */
export function masterAddressOf(cluster: Cluster, storageKey: string): ServerAddress | undefined {
  const announced = cluster.slots[slotOf((cluster.options.keyPrefix ?? '') + storageKey)]?.[0];
  // ioredis does not translate the address that a node names for a slot that has moved.
  return announced === undefined ? undefined : reachedBy(readAddress(announced), cluster.options.natMap);
}

/** Which server serves a storage key, as far as the client knows: an address in a cluster, otherwise an empty text. */
export function serverOf(client: RedisClient, storageKey: string): string {
  const address = isCluster(client) && masterAddressOf(client, storageKey);
  return address ? addressText(address) : '';
}

/** The connection to the master that serves a storage key, as far as the cluster client knows. */
export function masterOf(cluster: Cluster, storageKey: string): Redis | undefined {
  const server = serverOf(cluster, storageKey);
  return cluster.nodes('master').find(({ options }) => addressText(options) === server);
}
