import { type FoundBug } from './found-bug.js';
import { ACQUIRING } from './bugs/acquiring.js';
import { CONNECTIONS } from './bugs/connections.js';
import { HOLDING } from './bugs/holding.js';
import { JOBS } from './bugs/jobs.js';
import { LEADERS } from './bugs/leaders.js';
import { LOSSES } from './bugs/losses.js';
import { NESTING } from './bugs/nesting.js';
import { QUORUM } from './bugs/quorum.js';
import { RELEASING } from './bugs/releasing.js';
import { SEMAPHORES } from './bugs/semaphores.js';
import { SEVERAL_KEYS } from './bugs/several-keys.js';
import { SHUTDOWN } from './bugs/shutdown.js';
import { TOPOLOGIES } from './bugs/topologies.js';
import { TRANSFERS } from './bugs/transfers.js';
import { TURNS } from './bugs/turns.js';
import { WAITING } from './bugs/waiting.js';

/** Each breaks one rule of the library, or of the model of the scripts. */
export const BUGS: readonly FoundBug[] = [
  ...HOLDING,
  ...ACQUIRING,
  ...WAITING,
  ...TURNS,
  ...TRANSFERS,
  ...JOBS,
  ...RELEASING,
  ...SHUTDOWN,
  ...LOSSES,
  ...QUORUM,
  ...NESTING,
  ...SEVERAL_KEYS,
  ...SEMAPHORES,
  ...LEADERS,
  ...CONNECTIONS,
  ...TOPOLOGIES,
];
