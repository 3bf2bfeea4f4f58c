import { startSentinels } from '../../../scripts/topologies.mjs';
import { setUp } from './topology-setup.mjs';

/** Tolerates a machine that freezes, since no test here is about a failover. */
export default () => setUp('sentinel', () => startSentinels({ downAfterMs: 20_000 }));
