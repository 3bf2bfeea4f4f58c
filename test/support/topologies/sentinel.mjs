import { startSentinels } from '../../../scripts/topologies.mjs';
import { setUp } from './topology-setup.mjs';

/** Patient with a machine that stands still: no test here is about a fail-over. */
export default () => setUp('sentinel', () => startSentinels({ downAfterMs: 20_000 }));
