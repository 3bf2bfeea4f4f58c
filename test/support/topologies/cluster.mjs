import { startCluster } from '../../../scripts/topologies.mjs';
import { setUp } from './topology-setup.mjs';

/** Patient with a machine that stands still: no test here is about a fail-over. */
export default () => setUp('cluster', () => startCluster({ nodeTimeoutMs: 20_000 }));
