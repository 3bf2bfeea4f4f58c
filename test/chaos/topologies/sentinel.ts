import { setTimeout as sleep } from 'node:timers/promises';
import { startSentinels } from '../../../scripts/topologies.mjs';
import { type Forgets } from '../../checker/events.js';
import { type FaultKind, named } from '../nemesis/plan.js';
import { networkFaults } from '../nemesis/network-faults.js';
import { forgettingFaults, operatorFaults, serverFaults } from '../nemesis/server-faults.js';
import { now } from '../worker/standstills.mjs';
import { ChaosServer } from '../servers.js';
import { closeNetworks, cutNetworks, mapNetworks, soon, type System, type SystemOptions } from './system.js';

const NAME = 'mymaster';
/** Sentinel demotes an old master that still runs about ten seconds after it has named the new one. */
const SETTLES_WITHIN_MS = 15_000;
/** A shorter stall of a machine does not cause a failover, which would be neither planned nor excused. */
const DOWN_AFTER_MS = 2_000;
/** Sentinel may still fail over after a master has come back: it counts a server as down, then it votes. */
const STAYS_MS = DOWN_AFTER_MS + 2_000;

const PAUSE_MS = 2_000;

/** A master, two replicas and three sentinels. */
export async function startSentinel({ workers, minReplicas }: SystemOptions): Promise<System> {
  const topology = await startSentinels({ downAfterMs: DOWN_AFTER_MS });
  const servers = [topology.master, ...topology.replicas].map((server) => ChaosServer.of(server));
  const sentinels = topology.sentinels.map((server) => ChaosServer.of(server));
  const networks = await mapNetworks(workers, servers);
  const group = new Group(servers, sentinels);
  const onMaster = [() => group.master()];
  const network = named(
    networkFaults(networks),
    'slow network',
    'reply lost',
    'connections cut',
    'connections refused',
    'half-open connections',
    'late command',
  );
  return {
    connections: networks.map(({ natMap }) => ({ ...topology.connection, natMap })),
    directConnection: topology.connection,
    servers,
    monitors: sentinels,
    faults: [
      ...network,
      ...named(serverFaults(onMaster), 'CLIENT KILL normal', 'CLIENT KILL pubsub', 'SCRIPT FLUSH', 'out of memory'),
      ...named(forgettingFaults(onMaster), 'FLUSHALL', 'eviction', 'key deleted', 'key replaced'),
      ...failovers(group, minReplicas === topology.replicas.length),
      ...minorities(group),
      ...operatorFaults(() => topology.connection),
    ],
    isComplete: () => group.isSettled(),
    disconnect: () => cutNetworks(networks),
    async stop() {
      await closeNetworks(networks);
      await Promise.all([...sentinels, ...servers].map((server) => server.stop()));
      await topology.stop();
    },
  };
}

class Group {
  constructor(
    readonly servers: readonly ChaosServer[],
    readonly sentinels: readonly ChaosServer[],
  ) {}

  async master(): Promise<ChaosServer> {
    const port = await masterOf(this.sentinels[0]!);
    return this.servers.find((server) => server.port === port) ?? this.servers[0]!;
  }

  /**
   * Starts a server again, empty, as the master if Sentinel names it so, or else as a replica of the master. It must not be
   * what it was first: two servers that follow each other are a group without a master for minutes.
   */
  async restart(server: ChaosServer): Promise<void> {
    const master = await this.master();
    await server.restart({ keepData: false, master: master === server ? null : master });
  }

  /** Until all sentinels have named one master for a while, and the other servers follow it. */
  settled(): Promise<void> {
    let since: number | undefined;
    let last: ChaosServer | undefined;
    return soon(SETTLES_WITHIN_MS, async () => {
      const master = await this.master();
      if (!(await this.isSettled()) || master !== last) since = undefined;
      else since ??= now();
      last = master;
      return since !== undefined && now() - since >= STAYS_MS;
    });
  }

  async isSettled(): Promise<boolean> {
    const ports = await Promise.all(this.sentinels.map(masterOf));
    if (new Set(ports).size > 1 || ports[0] === undefined) return false;
    const roles = await Promise.all(this.servers.map(async (server) => ({ server, role: await server.send('ROLE') })));
    return roles.every(({ server, role }) => {
      const [name, , , link] = (role ?? []) as unknown[];
      return server.port === ports[0] ? name === 'master' : name === 'slave' && link === 'connected';
    });
  }
}

async function masterOf(sentinel: ChaosServer): Promise<number | undefined> {
  const address = (await sentinel.send('SENTINEL', 'GET-MASTER-ADDR-BY-NAME', NAME)) as string[] | undefined;
  return address && Number(address[1]);
}

/**
 * A failover may forget any lock, until the old master refuses commands. If all replicas confirm each grant, the death of the
 * master forgets none; one that lives on may still renew what the new one does not hear of.
 */
function failovers(group: Group, isConfirmed: boolean): FaultKind[] {
  const kind = (
    name: string,
    inflict: (master: ChaosServer) => Promise<unknown>,
    forgets: Forgets = 'all',
  ): FaultKind => ({
    name,
    plan: () => ({
      target: 'server 0',
      forgets,
      lastsMs: SETTLES_WITHIN_MS,
      async inflict() {
        await inflict(await group.master());
        await group.settled();
      },
    }),
  });
  return [
    kind('planned failover', () => group.sentinels[0]!.send('SENTINEL', 'FAILOVER', NAME).then(() => sleep(2_000))),
    kind(
      'master killed',
      async (master) => {
        await master.kill();
        await soon(SETTLES_WITHIN_MS, async () => (await group.master()) !== master);
        await group.restart(master);
      },
      isConfirmed ? [] : 'all',
    ),
    kind('master stopped', async (master) => {
      await master.suspend();
      await sleep(3_000);
      await master.resume();
    }),
    // The sentinels get no answers either.
    kind('CLIENT PAUSE', async (master) => {
      await master.send('CLIENT', 'PAUSE', PAUSE_MS, 'ALL');
      await sleep(PAUSE_MS);
    }),
    kind('master restarted empty', async (master) => {
      await master.kill();
      await group.restart(master);
    }),
  ];
}

/** What a group survives without a failover. */
function minorities(group: Group): FaultKind[] {
  const kind = (
    name: string,
    choose: () => Promise<ChaosServer>,
    restart: (server: ChaosServer) => Promise<void>,
  ): FaultKind => ({
    name,
    plan: (random) => {
      const ms = random.between(500, 4_000);
      return {
        target: 'server 0',
        lastsMs: ms + 2_000,
        async inflict() {
          const server = await choose();
          await server.kill();
          await sleep(ms);
          await restart(server);
          await group.settled();
        },
      };
    },
  });
  return [
    kind(
      'replica killed',
      async () => {
        const master = await group.master();
        return group.servers.find((server) => server !== master)!;
      },
      (server) => group.restart(server),
    ),
    kind(
      'sentinel killed',
      async () => group.sentinels[1]!,
      (server) => server.restart({ keepData: false }),
    ),
  ];
}
