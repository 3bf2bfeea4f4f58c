import { AcquireCall } from '../../../lib/core/acquire/acquire-call.js';
import { Acquisition } from '../../../lib/core/acquire/acquisition.js';
import { type Attempt } from '../../../lib/core/acquire/attempt.js';
import { type AcquireContext, Attempts, type GivenBack } from '../../../lib/core/acquire/attempts.js';
import { type LockRequest } from '../../../lib/core/acquire/request.js';
import { type Grant } from '../../../lib/core/hold/hold-terms.js';
import { LockEvents } from '../../../lib/core/lock.events.js';
import { type ResolvedLockOptions } from '../../../lib/core/lock.options.js';
import { type FireClaim } from '../../../lib/core/store/fires.js';
import { TimerQueue } from '../../../lib/core/timer-queue.js';
import { heldLock, lockOptions } from './core-parts.js';
import { FakeClock } from './fake-clock.js';
import { FakeReporter, FakeStore } from './fake-store.js';
import { outcomeOf } from '../waiting/outcome.js';
import { systemRandomness } from '../../../lib/core/randomness.js';

/** Notes the attempts of one call: those that it had (null: it ended), and those that were given back. */
class NotedAttempts extends Attempts {
  readonly current: (string | null)[] = [];
  readonly givenBack: string[] = [];

  override begin(...args: Parameters<Attempts['begin']>): Attempt {
    const attempt = super.begin(...args);
    // The last one has ended only to be replaced.
    if (this.current.at(-1) === null) this.current.pop();
    this.current.push(attempt.id);
    return attempt;
  }

  override end(attempt: Attempt): void {
    super.end(attempt);
    this.current.push(null);
  }

  override giveBack({ id }: GivenBack): void {
    this.givenBack.push(id);
  }
}

/** An acquisition of the key `k` that has just begun, all around it, and what became of it. */
export function startAcquisition(
  options: Partial<ResolvedLockOptions> = {},
  { keys = ['k'], claim }: { keys?: readonly string[]; claim?: FireClaim } = {},
) {
  const clock = new FakeClock();
  const [store, timers] = [new FakeStore(), new TimerQueue(clock)];
  const events = new LockEvents(new FakeReporter());
  /** The attempts whose lock is held. */
  const held = new Set<string>();
  let counter = 0;
  const attempts = new NotedAttempts({
    clock,
    store,
    events,
    releaser: { giveBack: () => undefined },
    nextId: () => `client.${++counter}`,
    isHeld: (attempt) => held.has(attempt),
  });
  const label = { where: 'Orders.charge', template: 'k' };
  const grant: AcquireContext['grant'] = (granting, grantedNow) => {
    held.add(grantedNow.attempt);
    granted = grantedNow;
    const hold = heldLock(undefined, grantedNow);
    granting.resolve(hold);
    return hold;
  };
  const fail: AcquireContext['fail'] = ({ reject }, error) => reject(error);
  let granted: Grant | undefined;
  const request: LockRequest = {
    keys,
    name: keys.join(', '),
    options: lockOptions(options),
    label,
    holder: 'host:1 Orders.charge',
    claim,
    startedAt: clock.now(),
  };
  const call = new AcquireCall(request, null, clock.now(), () => granted);
  const context = {
    clock,
    random: systemRandomness,
    timers,
    events,
    attempts,
    grant,
    fail,
    onTimeout: () => undefined,
  };
  const acquisition = new Acquisition(context, call);
  const settledAs = outcomeOf(call.result);
  const outcome = {
    get grant(): Grant | undefined {
      return settledAs.value as Grant | undefined;
    },
    get error(): unknown {
      return settledAs.error;
    },
  };
  const push = (fencingToken: number, serverTimeMs: number, remainingMs: number) =>
    acquisition.onWakeUp({ kind: 'granted', fencingToken, serverTimeMs, remainingMs });
  const noted = { attempts: attempts.current, abandoned: attempts.givenBack };
  return { clock, store, timers, events, ...noted, held, acquisition, outcome, push };
}
