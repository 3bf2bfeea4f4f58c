import { clusterConformance } from './cluster.js';
import { commandConformance } from './commands.js';
import { connectionConformance } from './connections.js';
import { faultConformance } from './faults.js';
import { sentinelConformance } from './sentinels.js';
import { type Subject } from './subject.js';

/** Tests everything that lib/redis/client/redis-client.ts promises, against real servers, on a library. */
export function clientConformance(subject: Subject): void {
  describe(subject.name, () => {
    connectionConformance(subject);
    commandConformance(subject);
    faultConformance(subject);
    clusterConformance(subject);
    sentinelConformance(subject);
  });
}
