import { type LockedOptions } from '../interceptor/locked-call.js';
import { type KeySpec } from '../keys/key-spec.js';
import { type LockedMethodDecorator } from './key-template.types.js';
import { lockMethod } from './lock-method.js';

/** Runs the method under the lock for reading: beside other readers of the key, never beside a writer. */
export function ReadLocked<const K extends KeySpec>(key: K, options?: LockedOptions): LockedMethodDecorator<K> {
  return lockMethod('read', key, options);
}
