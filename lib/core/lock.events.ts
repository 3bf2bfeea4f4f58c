import { type Channel, channel } from 'node:diagnostics_channel';
import { callForeign } from './foreign-code.js';
import { type LockLostError, type LockLostReason, type LockMode } from './lock.errors.js';
import { FUNCTION } from './option-checks.js';
import { refuse } from './read-options.js';
import { type Reporter, messageOf } from './reporter.js';

/**
 * Why a term ended: the leader called `resign()` (`resigned`); its campaign was stopped, by `stop()` or its signal (`stopped`);
 * the app shuts down (`shutdown`); or the lock of the leader was lost, for another reason of a `LockLostError`.
 */
export type DemotionReason = LockLostReason | 'resigned' | 'stopped';

/** The fields of every event. Durations are in milliseconds. */
export interface LockEvent {
  /** The key; several are joined by `, `. Unbounded: label metrics by `template` instead. */
  readonly key: string;
  /** The keys, one by one: a key may contain a comma. */
  readonly keys: readonly string[];
  /** The key template of the decorator; undefined for calls of the service. */
  readonly template: string | undefined;
  readonly mode: LockMode;
  /** `Class.method` if a decorator acquired it, otherwise empty. */
  readonly where: string;
  /** The `note` of the call; undefined without one. */
  readonly note: string | undefined;
}

/** The part of an event that names the code which acquires the lock. */
export type LockLabel = Pick<LockEvent, 'where' | 'template'>;

/** The label of a call of the service. */
export const NO_LABEL: LockLabel = { where: '', template: undefined };

/** An event of a lock that is, or was, held. */
export interface HeldLockEvent extends LockEvent {
  /** Identifies the acquisition, also in Redis. */
  readonly attempt: string;
  readonly fencingToken: number;
}

/** The events by name. */
export interface LockEventMap {
  /**
   * Granted. `waited`: a `waiting` event came before. `local`: another call of this process handed the lock over, without a
   * command; then both have the same `attempt`. `serverTimeMs`: when Redis granted it, by its clock; 0 if unknown.
   */
  acquired: HeldLockEvent & {
    readonly waitedMs: number;
    readonly waited: boolean;
    readonly local: boolean;
    readonly serverTimeMs: number;
  };
  /**
   * Not granted; each acquisition ends with this or with `acquired`. `reason`: `busy` (and the call must not wait), `timeout` of the
   * wait, `aborted` by the caller's signal, `claimed` (another call runs this fire of a job), `shutdown` of the app, or another `error`.
   */
  acquireFailed: LockEvent & {
    readonly waitedMs: number;
    readonly waited: boolean;
    readonly reason: 'busy' | 'timeout' | 'aborted' | 'claimed' | 'shutdown' | 'error';
    readonly error: unknown;
  };
  /** The lock is busy, and the call waits from now on; once per call. */
  waiting: LockEvent & { readonly ahead: number; readonly holder: string | undefined };
  /**
   * Released, or handed to another call of this process. `holds`: how many holds of the key remain, of all callers; undefined
   * if Redis did not answer, or was not asked.
   */
  released: HeldLockEvent & { readonly heldMs: number; readonly holds: number | undefined };
  /** Given away: another process may adopt it. Here, it counts as released. */
  transferred: HeldLockEvent & { readonly heldMs: number };
  /** Another process transferred it, and this one holds it now. `from`: the attempt that had it; with several keys, that of the first. */
  adopted: HeldLockEvent & { readonly from: string };
  renewed: HeldLockEvent & { readonly remainingMs: number };
  /** A renewal had no answer and is tried again until the lease is over. */
  renewFailed: HeldLockEvent & { readonly cause: unknown };
  /**
   * Lost. `earlier`: the number of calls of this process that handed the same grant on since its last proof. They have returned, and may
   * have run without the lock.
   */
  lost: HeldLockEvent & {
    readonly heldMs: number;
    readonly reason: LockLostReason;
    readonly error: LockLostError;
    readonly earlier: readonly HeldLockEvent[];
  };
  /**
   * A decorated call did not run: the lock was busy, the fire was claimed, Redis could not be reached, the app stops, or another
   * instance leads. `shared`: the call waits from now on for the result of another call.
   */
  skipped: LockEvent & { readonly reason: 'busy' | 'claimed' | 'unavailable' | 'shutdown' | 'not-leader' | 'shared' };
  /**
   * This instance has revoked it with `forceRelease`. The mode is `write`, because a revocation ends all holds; the holders get
   * the event `lost`. `by`: the `by` of the call.
   */
  forced: LockEvent & { readonly by: string | undefined };
  /** `waitMs` was over. */
  timedOut: LockEvent & { readonly waitedMs: number; readonly holder: string | undefined };
  /** A nested call entered the lock that its chain of calls holds. */
  reentered: LockEvent & { readonly waitedMs: number };
  /** This instance leads. */
  elected: HeldLockEvent;
  /** This instance no longer leads. */
  demoted: HeldLockEvent & { readonly heldMs: number; readonly reason: DemotionReason };
}

/** The name of an event. */
export type LockEventName = keyof LockEventMap;

/** Types are gone at run time, so the names are listed; a list that lacks one does not compile. */
const NAMES = {
  acquired: true,
  acquireFailed: true,
  waiting: true,
  released: true,
  transferred: true,
  adopted: true,
  renewed: true,
  renewFailed: true,
  lost: true,
  skipped: true,
  forced: true,
  timedOut: true,
  reentered: true,
  elected: true,
  demoted: true,
} satisfies Record<LockEventName, true>;

/** The receivers of one event: the listeners of a module, and the subscribers of the channel, which all modules share. */
class Audience {
  readonly listeners = new Set<(event: any) => unknown>();
  readonly channel: Channel;

  constructor(name: string) {
    this.channel = channel(`nestjs-redis-lock:${name}`);
  }

  get isThere(): boolean {
    return this.listeners.size > 0 || this.channel.hasSubscribers;
  }
}

/**
 * Events of one module, each also on the `node:diagnostics_channel` named `nestjs-redis-lock:<event>`. Listeners are called
 * synchronously; without listeners, no event object is created. An event of a call runs in the async context of its caller, but outside
 * its locks; an event of a timer or of Redis runs in the context in which the module was created, as may one of a call that
 * began before the first listener came. An error of a listener is logged and does not affect the lock (an error of a channel's
 * subscriber is an uncaught exception, as always in Node).
 */
export class LockEvents {
  /** By name. Each lock reads it eight times: a property is found faster than an entry of a map. */
  readonly #audiences = Object.fromEntries(Object.keys(NAMES).map((name) => [name, new Audience(name)])) as Readonly<
    Record<LockEventName, Audience>
  >;

  /** Internal: the module makes it. */
  constructor(private readonly reporter: Pick<Reporter, 'error'>) {}

  /** @throws LockConfigurationError */
  on<Name extends LockEventName>(name: Name, listener: (event: LockEventMap[Name]) => unknown): this {
    const { listeners } = this.#audienceOf(name);
    FUNCTION.check(listener, 'listener');
    listeners.add(listener);
    return this;
  }

  /** @throws LockConfigurationError */
  off<Name extends LockEventName>(name: Name, listener: (event: LockEventMap[Name]) => unknown): this {
    this.#audienceOf(name).listeners.delete(listener);
    return this;
  }

  /** Internal: whether the event has listeners. */
  isHeard(name: LockEventName): boolean {
    return this.#audiences[name].isThere;
  }

  /** Internal: calls all listeners. Calls `make` only if listeners exist; returns whether they do. */
  emit<Name extends LockEventName>(name: Name, make: () => LockEventMap[Name]): boolean {
    const audience = this.#audiences[name];
    if (!audience.isThere) return false;
    const event = make();
    const report = (error: unknown): void =>
      this.reporter.error(`A listener of the lock event "${name}" threw: ${messageOf(error)}`);
    // A copy: in the set itself, a listener that is removed and added again during the loop would be called endlessly.
    for (const listener of Array.from(audience.listeners)) callForeign(() => listener(event), report);
    // Node reports an error of a subscriber as an uncaught exception, in its own turn.
    if (audience.channel.hasSubscribers) callForeign(() => audience.channel.publish(event), report);
    return true;
  }

  /** @throws LockConfigurationError */
  #audienceOf(name: LockEventName): Audience {
    if (!Object.hasOwn(this.#audiences, name)) refuse('event', name, `one of ${Object.keys(NAMES).join(', ')}`);
    return this.#audiences[name];
  }
}
