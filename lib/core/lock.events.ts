import { channel } from 'node:diagnostics_channel';
import { type LockLostError, type LockLostReason, type LockMode } from './lock.errors.js';
import type { AcquireFailure } from './acquire/acquire-failed.js';
import { callForeign } from './foreign-code.js';
import { type Reporter, messageOf } from './reporter.js';

/** What every event says of its lock. Durations are milliseconds. */
export interface LockEvent {
  /** The key; several are joined by `, `. Unbounded: label metrics by `template` instead. */
  readonly key: string;
  /** The key template of the decorator; undefined for calls of the service. */
  readonly template: string | undefined;
  readonly mode: LockMode;
  /** Class and method, where a decorator acquired it. */
  readonly where: string;
}

/** An event of a lock that is, or was, held. */
export interface HeldLockEvent extends LockEvent {
  /** Identifies the acquisition, also in Redis. */
  readonly attempt: string;
  readonly fencingToken: number;
}

/** The events by name, with what each carries. */
export interface LockEventMap {
  /** Granted. `waited`: a `waiting` event came before. `serverTimeMs`: by the clock of Redis; 0 when it is not known. */
  acquired: HeldLockEvent & {
    readonly waitedMs: number;
    readonly waited: boolean;
    readonly serverTimeMs: number;
  };
  /** Not granted, for whatever reason; each acquisition ends with this or with `acquired`. */
  acquireFailed: LockEvent & {
    readonly waitedMs: number;
    readonly waited: boolean;
    readonly reason: AcquireFailure;
    readonly error: unknown;
  };
  /** Busy, and waiting from now on; once per call. */
  waiting: LockEvent & { readonly ahead: number; readonly holder: string | undefined };
  /** Given back; `holds`: how many holds of the key remain, of whomever (undefined: Redis did not answer). */
  released: HeldLockEvent & { readonly heldMs: number; readonly holds: number | undefined };
  renewed: HeldLockEvent & { readonly remainingMs: number };
  /** A renewal had no answer and is tried again until the lease is over. */
  renewFailed: HeldLockEvent & { readonly cause: unknown };
  lost: HeldLockEvent & { readonly heldMs: number; readonly reason: LockLostReason; readonly error: LockLostError };
  /** A decorated call did not run: the lock was busy, the fire was taken, Redis could not be asked, or the app stops. */
  skipped: LockEvent & { readonly reason: 'busy' | 'claimed' | 'unavailable' | 'shutdown' };
  /** `waitMs` was over. */
  timedOut: LockEvent & { readonly waitedMs: number; readonly holder: string | undefined };
  /** A nested call entered the lock that its chain of calls holds. */
  reentered: LockEvent & { readonly waitedMs: number };
}

/** The name of an event. */
export type LockEventName = keyof LockEventMap;

/** Hears the events of a name; what it returns or throws is not felt by the lock. */
export type LockEventListener<Name extends LockEventName> = (event: LockEventMap[Name]) => unknown;

const NAMES: readonly LockEventName[] = [
  'acquired', 'acquireFailed', 'waiting', 'released', 'renewed', 'renewFailed', 'lost', 'skipped', 'timedOut', 'reentered',
]; // prettier-ignore

/** Found once: a channel is looked up by name in a global table. */
const CHANNELS = new Map(NAMES.map((name) => [name, channel(`nestjs-redis-lock:${name}`)]));

/**
 * Events of one module, each also on the `node:diagnostics_channel` named `nestjs-redis-lock:<event>`. A listener is
 * called in the turn of the event: in the async context of the caller whose own call it tells of, and never under a
 * lock of that caller; of what time or Redis bring about, in the context in which the module was made. One that throws
 * is logged and never felt (a subscriber of a channel that throws is an uncaught exception, as Node has it). Without
 * listeners no event object is made.
 */
export class LockEvents {
  readonly #listeners = new Map<LockEventName, Set<LockEventListener<any>>>();

  /** Internal: the module makes it. */
  constructor(private readonly reporter: Pick<Reporter, 'error'>) {}

  on<Name extends LockEventName>(name: Name, listener: LockEventListener<Name>): this {
    const listeners = this.#listeners.get(name) ?? new Set();
    this.#listeners.set(name, listeners.add(listener));
    return this;
  }

  off<Name extends LockEventName>(name: Name, listener: LockEventListener<Name>): this {
    const listeners = this.#listeners.get(name);
    if (listeners?.delete(listener) && listeners.size === 0) this.#listeners.delete(name);
    return this;
  }

  /** Tells everybody who listens; internal. `make` is called when there is somebody. */
  emit<Name extends LockEventName>(name: Name, make: () => LockEventMap[Name]): void {
    const listeners = this.#listeners.get(name);
    const published = CHANNELS.get(name)!;
    if (!listeners && !published.hasSubscribers) return;
    const event = make();
    const report = (error: unknown): void =>
      this.reporter.error(`A listener of the lock event "${name}" threw: ${messageOf(error)}`);
    // A copy: in the set itself, a listener that leaves and comes back meanwhile would be told without end.
    for (const listener of Array.from(listeners ?? [])) callForeign(() => listener(event), report);
    // Node tells what a subscriber throws as an uncaught exception, in a turn of its own.
    if (published.hasSubscribers) callForeign(() => published.publish(event), report);
  }
}
