import { type Releaser, type ReleaseOutcome } from '../../../lib/core/hold/releaser.js';
import { type ReleaseRequest } from '../../../lib/core/store/lock-store.js';

/** A release of the releaser, as a promise. */
export const releasing = (
  releaser: Releaser,
  request: ReleaseRequest,
  until: number,
  timeoutMs: number,
): Promise<ReleaseOutcome> => new Promise((resolve) => releaser.giveBack(request, until, timeoutMs, resolve));
