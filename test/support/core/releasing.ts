import { systemRandomness } from '../../../lib/core/randomness.js';
import { Releaser } from '../../../lib/core/hold/releaser.js';
import { LockEvents } from '../../../lib/core/lock.events.js';
import { type ReleaseReply, type ReleaseRequest } from '../../../lib/core/store/lock-store.js';
import { TimerQueue } from '../../../lib/core/timer-queue.js';
import { FakeClock } from './fake-clock.js';
import { FakeReporter, FakeStore } from './fake-store.js';

/** A releaser, and what it works with. */
export function startReleaser() {
  const clock = new FakeClock();
  const [store, reporter, timers] = [new FakeStore(), new FakeReporter(), new TimerQueue(clock)];
  const events = new LockEvents(reporter);
  const releaser = new Releaser({ clock, random: systemRandomness, timers, store, reporter, events });
  return { clock, store, reporter, timers, releaser };
}

/** A release of the releaser, as a promise. */
export const releasing = (
  releaser: Releaser,
  request: ReleaseRequest,
  until: number,
  timeoutMs: number,
): Promise<{ readonly reply: ReleaseReply | undefined; readonly tries: number }> =>
  new Promise((resolve) => {
    const listener = {
      onReleased: (_: string, reply: ReleaseReply | undefined, tries: number) => resolve({ reply, tries }),
    };
    releaser.giveBack(request, until, timeoutMs, listener);
  });
