import { slotOf } from '../../../lib/redis/client/cluster-slots.js';
import { type StartedCluster } from '../../../scripts/topologies.mjs';
import { freshKey, openAdmin } from '../apps/lock-app.js';

/** The master that has a storage key at first: each of the three has a third of the slots. */
export const masterOf = (storageKey: string): number => Math.floor(((slotOf(storageKey) + 1) * 3 - 1) / 16_384);

/** A key whose lock is on the n-th master. */
export function keyOn(n: number): string {
  for (;;) {
    const key = freshKey();
    if (masterOf(`lock:${key}`) === n) return key;
  }
}

/** Starts to move the slot of a storage key; its keys stay where they are until they are moved. */
export async function beginMove(cluster: StartedCluster, storageKey: string) {
  const [slot, from] = [slotOf(storageKey), masterOf(storageKey)];
  const to = (from + 1) % 3;
  const [source, target] = [openAdmin(cluster.masters[from]!.url), openAdmin(cluster.masters[to]!.url)];
  const [sourceId, targetId] = [await source.cluster('MYID'), await target.cluster('MYID')];
  await target.call('CLUSTER', 'SETSLOT', slot, 'IMPORTING', sourceId);
  await source.call('CLUSTER', 'SETSLOT', slot, 'MIGRATING', targetId);
  const moveKey = (name: string) =>
    source.call('MIGRATE', '127.0.0.1', cluster.masters[to]!.port, name, 0, 5_000, 'REPLACE');
  const end = async () => {
    for (const name of (await source.call('CLUSTER', 'GETKEYSINSLOT', slot, 1_000)) as string[]) await moveKey(name);
    for (const admin of [target, source]) await admin.call('CLUSTER', 'SETSLOT', slot, 'NODE', targetId);
  };
  return { moveKey, end };
}
