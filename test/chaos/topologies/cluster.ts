import { setTimeout as sleep } from 'node:timers/promises';
import { startCluster as launchCluster } from '../../../scripts/topologies.mjs';
import { type FaultKind, named } from '../nemesis/plan.js';
import { networkFaults } from '../nemesis/network-faults.js';
import { KEYS, forgettingFaults, operatorFaults, serverFaults, storageKey } from '../nemesis/server-faults.js';
import { ChaosServer } from '../servers.js';
import { closeNetworks, cutNetworks, mapNetworks, soon, type System, type SystemOptions } from './system.js';

const HOST = '127.0.0.1';
const MASTERS = 3;
const SLOTS = 16_384;
const SETTLES_WITHIN_MS = 15_000;

/** Three masters with a replica each. */
export async function startCluster({ workers, minReplicas }: SystemOptions): Promise<System> {
  const topology = await launchCluster();
  const servers = [...topology.masters, ...topology.replicas].map((server) => ChaosServer.of(server));
  const networks = await mapNetworks(workers, servers);
  const nodes = new Nodes(servers);
  const masters = Array.from({ length: MASTERS }, (_, i) => () => nodes.ownerOf(Math.floor((i * SLOTS) / MASTERS)));
  return {
    connections: networks.map(({ natMap }) => ({ ...topology.connection, natMap })),
    directConnection: topology.connection,
    servers,
    faults: [
      ...networkFaults(networks),
      ...named(
        serverFaults(masters),
        'CLIENT KILL normal',
        'CLIENT KILL pubsub',
        'CLIENT PAUSE',
        'SCRIPT FLUSH',
        'out of memory',
      ),
      ...named(forgettingFaults(masters), 'FLUSHALL', 'eviction'),
      ...named(forgettingFaults([(key) => nodes.ownerOfKey(key!)]), 'key deleted', 'key replaced'),
      ...failovers(nodes, masters, minReplicas > 0),
      ...operatorFaults(() => topology.connection),
      slotMoves(nodes),
    ],
    isComplete: () => nodes.isSettled(),
    disconnect: () => cutNetworks(networks),
    async stop() {
      await closeNetworks(networks);
      await Promise.all(servers.map((server) => server.stop()));
      await topology.stop();
    },
  };
}

type SlotRange = [from: number, to: number, ...nodes: [ip: string, port: number, id: string][]];

class Nodes {
  constructor(readonly servers: readonly ChaosServer[]) {}

  async ownerOf(slot: number): Promise<ChaosServer> {
    const [, , master] = (await this.#ranges()).find(([from, to]) => from <= slot && slot <= to) ?? [];
    return this.#serverAt(master?.[1]);
  }

  async ownerOfKey(key: string): Promise<ChaosServer> {
    return this.ownerOf(await this.slotOf(key));
  }

  async slotOf(key: string): Promise<number> {
    return Number(await this.servers[0]!.send('CLUSTER', 'KEYSLOT', key));
  }

  /** A replica of the master that owns this slot. */
  async replicaOf(slot: number): Promise<ChaosServer> {
    const [, , , replica] = (await this.#ranges()).find(([from, to]) => from <= slot && slot <= to) ?? [];
    return this.#serverAt(replica?.[1]);
  }

  idOf(server: ChaosServer): Promise<string> {
    return server.send('CLUSTER', 'MYID') as Promise<string>;
  }

  /** Until every node says that all slots are served, and every master has its replica back. */
  settled(): Promise<void> {
    return soon(SETTLES_WITHIN_MS, () => this.isSettled());
  }

  async isSettled(): Promise<boolean> {
    const states = await Promise.all(this.servers.map((server) => server.send('CLUSTER', 'INFO')));
    if (!states.every((state) => String(state).includes('cluster_state:ok'))) return false;
    const roles = await Promise.all(this.servers.map((server) => server.send('ROLE')));
    const [masters, replicas] = ['master', 'slave'].map((name) =>
      roles.filter((role) => (role as unknown[] | undefined)?.[0] === name),
    );
    return masters!.length === MASTERS && replicas!.every((role) => (role as unknown[])[3] === 'connected');
  }

  async #ranges(): Promise<SlotRange[]> {
    for (const server of this.servers) {
      const ranges = (await server.send('CLUSTER', 'SLOTS')) as SlotRange[] | undefined;
      if (ranges && ranges.length >= MASTERS) return ranges;
    }
    return [];
  }

  #serverAt(port: number | undefined): ChaosServer {
    return this.servers.find((server) => server.port === port) ?? this.servers[0]!;
  }
}

/**
 * A replica takes over with the data that it has. Only a planned failover waits until it has all of it. If the replica
 * confirms each grant, the death of its master forgets none; one that lives on may still renew what the new one does not hear of.
 */
function failovers(nodes: Nodes, masters: readonly (() => Promise<ChaosServer>)[], isConfirmed: boolean): FaultKind[] {
  const kind = (name: string, forgets: 'all' | undefined, inflict: (slot: number) => Promise<unknown>): FaultKind => ({
    name,
    plan(random) {
      const i = random.between(0, masters.length - 1);
      return {
        target: 'cluster',
        forgets,
        lastsMs: SETTLES_WITHIN_MS / 2,
        async inflict() {
          await inflict(Math.floor((i * SLOTS) / MASTERS));
          await nodes.settled();
        },
      };
    },
  });
  const ask = (how: string[]) => async (slot: number) => {
    await (await nodes.replicaOf(slot)).send('CLUSTER', 'FAILOVER', ...how);
    await sleep(1_000);
  };
  return [
    kind('planned failover', undefined, ask([])),
    kind('forced failover', 'all', ask(['FORCE'])),
    kind('takeover', 'all', ask(['TAKEOVER'])),
    kind('master killed', isConfirmed ? undefined : 'all', async (slot) => {
      const master = await nodes.ownerOf(slot);
      await master.kill();
      await sleep(4_000);
      await master.restart({ keepData: false });
    }),
    kind('master stopped', 'all', async (slot) => {
      const master = await nodes.ownerOf(slot);
      await master.suspend();
      await sleep(4_000);
      await master.resume();
    }),
  ];
}

/** The slot of one key moves to another master, and its key a moment later. */
const slotMoves = (nodes: Nodes): FaultKind => ({
  name: 'slot moves',
  plan(random) {
    const key = storageKey(random.pick(KEYS));
    const lastsMs = random.between(0, 1_000);
    const to = random.between(0, MASTERS - 1);
    return {
      target: 'cluster',
      lastsMs: lastsMs + 1_000,
      async inflict() {
        const slot = await nodes.slotOf(key);
        const source = await nodes.ownerOf(slot);
        const target = await nodes.ownerOf(Math.floor((to * SLOTS) / MASTERS));
        if (source !== target) await move(nodes, { slot, key, source, target, lastsMs });
      },
    };
  },
});

interface Move {
  readonly slot: number;
  readonly key: string;
  readonly source: ChaosServer;
  readonly target: ChaosServer;
  readonly lastsMs: number;
}

async function move(nodes: Nodes, { slot, key, source, target, lastsMs }: Move): Promise<void> {
  const [sourceId, targetId] = [await nodes.idOf(source), await nodes.idOf(target)];
  await target.send('CLUSTER', 'SETSLOT', slot, 'IMPORTING', sourceId);
  await source.send('CLUSTER', 'SETSLOT', slot, 'MIGRATING', targetId);
  await sleep(lastsMs);
  await source.send('MIGRATE', HOST, target.port, key, 0, 5_000, 'REPLACE');
  for (const server of [target, source]) await server.send('CLUSTER', 'SETSLOT', slot, 'NODE', targetId);
}
