import { type LockedCall } from '../../../lib/interceptor/locked-call.js';
import { type LockedOptions } from '../../../lib/interceptor/locked.options.js';

/** A method with `@Locked('job', options)`. */
export const jobCall = (options: LockedOptions): LockedCall => ({
  where: 'Jobs.run',
  template: 'job',
  kind: 'promise',
  keyOf: () => 'job',
  name: 'run',
  method: jobCall,
  options: { ...options, mode: 'write' },
});
