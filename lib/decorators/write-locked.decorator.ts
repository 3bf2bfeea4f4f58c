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
 * Runs the method under the lock for writing: no reader and no other writer of the key at the same time; the same as
 * `@Locked`.
 */
export function WriteLocked<const K extends KeySpec, B extends IfBusy, P extends OncePer, U extends IfUnavailable>(
  key: K,
  options?: LockedOptions & SkipOptions<B, P, U>,
): LockedMethodDecorator<K, SkippedBy<B, P, U>> {
  refuseBareDecorator("@WriteLocked('order:<0.id>')", key, options);
  return lockMethod('write', key, options);
}
