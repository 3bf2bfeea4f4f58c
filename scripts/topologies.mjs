// Starts whole Redis topologies on loopback ports, for tests. Every connection is plain JSON, as `connection` takes it.
// Whoever starts a server of one again, by its `port` and `args`, ends that one.
export { startCluster } from './topologies/cluster.mjs';
export { startQuorum } from './topologies/quorum.mjs';
export { documentedRights, startSecured } from './topologies/secured.mjs';
export { startSentinels } from './topologies/sentinels.mjs';

/** @typedef {import('./topologies/cluster.mjs').StartedCluster} StartedCluster */
/** @typedef {import('./topologies/secured.mjs').StartedSecured} StartedSecured */
