import { type LockedOptions } from '../interceptor/locked.options.js';
import { type KeySpec } from '../keys/key-spec.js';
import { refuseBareDecorator } from './decorated-method.js';
import { type LockedMethodDecorator } from './locked-method.types.js';
import { lockMethod } from './lock-method.js';
import {
  type IfBusy,
  type IfUnavailable,
  type OncePer,
  type SkipOptions,
  type SkippedBy,
} from './skipped-call.types.js';

/**
 * Runs at most `permits` calls per key at a time, on all instances of the app together: a counting semaphore whose permits
 * have a lease each. The calls lock the key in mode `read`, so a writer of the key excludes all of them.
 *
 * `@Limited('tenant:<0>', 5)`: at most five at a time for each tenant; `@Limited('tenant:<0.id>', (tenant) => tenant.seats)`:
 * as many as the function of the arguments returns.
 * @throws the same errors as `Locked`
 */
export function Limited<const K extends KeySpec, B extends IfBusy, P extends OncePer, U extends IfUnavailable>(
  key: K,
  permits: NonNullable<LockedOptions['permits']>,
  options: Omit<LockedOptions, 'permits'> & SkipOptions<B, P, U> = {},
): LockedMethodDecorator<K, SkippedBy<B, P, U>> {
  refuseBareDecorator("@Limited('tenant:<0>', 5)", key, permits);
  // Without type checks, `permits` may be undefined, which would mean no limit.
  return lockMethod('read', key, options, permits ?? NaN);
}
