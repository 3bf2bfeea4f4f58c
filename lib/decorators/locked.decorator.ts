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
 * Runs the method under an exclusive lock: at most one call per key at a time, on all instances of the app.
 *
 * `@Locked('order:<0.id>')`: `<0.id>` is filled with the `id` of the first argument.
 * @throws (the call) LockWaitTimeoutError, LockBusyError, LockLostError, LockStoreError, LockKeyError, LockReentryError,
 *   LockShutdownError, LockConfigurationError; (the class definition) LockKeyError, LockConfigurationError
 */
export function Locked<const K extends KeySpec, B extends IfBusy, P extends OncePer, U extends IfUnavailable>(
  key: K,
  options?: LockedOptions & SkipOptions<B, P, U>,
): LockedMethodDecorator<K, SkippedBy<B, P, U>> {
  refuseBareDecorator("@Locked('order:<0.id>')", key, options);
  return lockMethod('write', key, options);
}
