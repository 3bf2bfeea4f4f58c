import { type AcquireReply, type AcquireRequest, type ReleaseReply, type ReleaseRequest } from './lock-store.js';

/** What becomes of a command: exactly one of both is called, once, and neither throws. */
export interface Outcome<T, Failure = unknown> {
  resolve(answer: T): void;
  reject(error: Failure): void;
}

/** `onLate` receives a reply that comes after the rejection. */
export interface AcquireOutcome extends Outcome<AcquireReply> {
  onLate(reply: AcquireReply): void;
}

/**
 * What a store may have besides its promises. Two promises for each command take as long as the rest of a plain call. The outcome
 * comes in any async context, so a call of which somebody listens to the events uses the promises. `reject` may be called at
 * once; the others only after the start has returned. A store of an app has only promises (`given-store`).
 */
export interface CallbackStore {
  startAcquire(request: AcquireRequest, timeoutMs: number, outcome: AcquireOutcome): void;
  startRelease(request: ReleaseRequest, timeoutMs: number, outcome: Outcome<ReleaseReply>): void;
}
