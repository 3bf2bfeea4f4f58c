import { LOCK_OPTIONS, type LockOptions } from '../core/lock.options.js';
import { checkOptions, FUNCTION, option, type OptionTable } from '../core/option-checks.js';
import { type LeaderHooks } from './leadership.js';

/** The options of `lead`. */
export interface LeadOptions extends LeaderHooks, Pick<LockOptions, 'leaseMs'> {
  /** Stops the campaign: the leader steps down, as with `stop()`. */
  signal?: AbortSignal;
}

const { leaseMs, signal } = LOCK_OPTIONS;
const HOOK = option(FUNCTION);
const LEAD_OPTIONS = { onElected: HOOK, onDemoted: HOOK, leaseMs, signal } satisfies OptionTable<LeadOptions>;

/**
 * Checks the options of `lead` and returns a copy of them.
 * @throws LockConfigurationError that names the option, the value and what was expected
 */
export const checkLeadOptions = (options: LeadOptions): LeadOptions => checkOptions(options, LEAD_OPTIONS, 'lead()');
