import { type LockOptions, checkLockOptions } from '../core/lock.options.js';
import { readOptions, refuse } from '../core/read-options.js';
import { type LeaderHooks } from './leadership.js';

/** The options of `lead`. */
export interface LeadOptions extends LeaderHooks, Pick<LockOptions, 'leaseMs'> {
  /** Stops the campaign: the leader steps down, as with `stop()`. */
  signal?: AbortSignal;
}

const OPTIONS = { onElected: true, onDemoted: true, leaseMs: true, signal: true } satisfies Record<
  keyof LeadOptions,
  true
>;

/**
 * Checks the options of `lead` and returns a copy of them.
 * @throws LockConfigurationError that names the option, the value and what was expected
 */
export function checkLeadOptions(options: LeadOptions): LeadOptions {
  const own: LeadOptions = readOptions(options, Object.keys(OPTIONS), 'lead()');
  const { leaseMs, signal } = own;
  checkLockOptions({ leaseMs, signal });
  for (const name of ['onElected', 'onDemoted'] as const) {
    const hook: unknown = own[name];
    if (hook !== undefined && typeof hook !== 'function') refuse(name, hook, 'a function');
  }
  return own;
}
