import { type LockedCall, type LockedOptions } from '../../../lib/interceptor/locked-call.js';

/** A method with `@Locked('job', options)`. */
export const jobCall = (options: LockedOptions): LockedCall => ({
  where: 'Jobs.run',
  template: 'job',
  kind: 'promise',
  keyOf: () => 'job',
  method: () => jobCall,
  options: { ...options, mode: 'write' },
});
