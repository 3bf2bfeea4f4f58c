import { type LeadOptions } from '../../../lib/leader/lead.options.js';
import { type Leadership } from '../../../lib/leader/leadership.js';
import { Leaders } from '../../../lib/leader/leaders.js';
import { startLocker } from '../../support/core/core-parts.js';
import { settled } from '../../support/core/fake-clock.js';

/** How long the work of a term may go on after it was told to end. */
export const DRAIN_MS = 400;

const DEFAULTS = { leaseMs: 3_000, waitMs: 0, maxHoldMs: 1, awaitRelease: true, isQuorum: false, drainMs: DRAIN_MS };

/** Campaigns on a store that elects at once, and everything that they tell. */
export function startLeaders() {
  const parts = startLocker();
  const leaders = new Leaders(parts.locker, DEFAULTS);
  const told: string[] = [];
  for (const name of ['elected', 'demoted', 'skipped'] as const) {
    parts.locker.events.on(name, (event) => told.push('reason' in event ? `${name}: ${event.reason}` : name));
  }
  /** A campaign that has been elected. */
  const elected = async (options: LeadOptions = {}): Promise<Leadership> => {
    const leadership = leaders.lead('reports', options);
    await leadership.waitUntilLeader();
    await settled();
    return leadership;
  };
  /** Revokes the lock of the leader. */
  const revoke = (): void => {
    for (const hold of parts.locker.holds) hold.lose('revoked');
  };
  return { ...parts, leaders, told, elected, revoke };
}
