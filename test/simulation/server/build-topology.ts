import { type Network } from '../network/network.js';
import { type Plan } from '../workload/plan.js';
import { Rng } from '../world/rng.js';
import { ClusterBus } from './cluster-bus.js';
import { ClusterNode } from './cluster-node.js';
import { Member } from './member.js';
import { ReplicaSet } from './replica-set.js';
import { FIRST_SENTINEL, SimSentinel } from './sentinel.js';
import { type FailoverWatch, portOf, type Topology } from './topology.js';

const SENTINELS = 3;

/** Joins the servers of a run; null if they know nothing of each other. */
export function buildTopology(
  { servers, world }: Network,
  { profile, seed }: Plan,
  watch: FailoverWatch,
): Topology | null {
  if (profile.topology === 'none') return null;
  const rng = new Rng(seed, 'topology');
  const { topology, masters, replicas } = profile;
  if (topology === 'cluster') {
    const bus = new ClusterBus({ world, rng, watch, masters, replicas });
    bus.nodes = servers.map((server) => new ClusterNode(server, bus, bus.view));
    bus.join();
    return bus;
  }
  const members = servers.map((server) => new Member(server));
  const count = topology === 'sentinel' ? SENTINELS : 0;
  const sentinels = Array.from({ length: count }, (_, i) => {
    return new SimSentinel(FIRST_SENTINEL + i, world, new Rng(seed, 'sentinel', i), portOf(servers[0]!));
  });
  for (const sentinel of sentinels) sentinel.others = sentinels.filter((other) => other !== sentinel);
  return new ReplicaSet({ world, rng, members, sentinels, watch });
}
