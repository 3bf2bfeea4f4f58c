// Starts whole Redis topologies on loopback ports, for tests. Every connection is plain JSON, as `connection` takes it.
export { startCluster } from './topologies/cluster.mjs';
export { startQuorum } from './topologies/quorum.mjs';
export { documentedRights, startSecured } from './topologies/secured.mjs';
export { startSentinels } from './topologies/sentinels.mjs';
