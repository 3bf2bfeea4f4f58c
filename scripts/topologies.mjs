// Starts whole Redis topologies on loopback ports, for tests. Every `connection` is plain JSON, and fits the option `connection`.
// If you restart a server of a topology (with its `port` and `args`), stop the new one yourself.
export { startCluster } from './topologies/cluster.mjs';
export { startQuorum } from './topologies/quorum.mjs';
export { documentedRights, startSecured } from './topologies/secured.mjs';
export { startSentinels } from './topologies/sentinels.mjs';

/** @typedef {import('./topologies/cluster.mjs').StartedCluster} StartedCluster */
/** @typedef {import('./topologies/secured.mjs').StartedSecured} StartedSecured */
