import { type Facts, KEY_PREFIX } from '../judge/facts.js';
import { type FaultOf } from '../workload/plan.js';

/** The faults of servers that belong together. */
export function topologyFaults(facts: Facts) {
  const topology = () => facts.network.topology!;
  const trouble = (ms: number): void => facts.trouble(facts.world.now + ms);
  return {
    failover: (fault: FaultOf<'failover'>) => {
      trouble(fault.ms);
      topology().failover(fault);
    },
    partitionReplica: ({ server, ms }: FaultOf<'partitionReplica'>) => {
      // Grants wait for replicas.
      if (facts.plan.profile.minReplicas > 0) trouble(ms);
      topology().partition(server, ms);
    },
    stopSentinel: ({ sentinel, ms, isSilent }: FaultOf<'stopSentinel'>) => {
      trouble(ms);
      facts.failovers.sentinelsUntil = Math.max(facts.failovers.sentinelsUntil, facts.world.now + ms);
      topology().stopSentinel?.(sentinel, ms, isSilent);
    },
    moveSlot: ({ key, to, ms }: FaultOf<'moveSlot'>) => {
      trouble(ms);
      topology().moveSlot?.(KEY_PREFIX + key, to, ms);
    },
  };
}
