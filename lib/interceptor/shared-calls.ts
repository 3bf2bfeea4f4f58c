import { AsyncLocalStorage } from 'node:async_hooks';
import { type Locker } from '../core/acquire/locker.js';
import { type Key, keysOf } from '../core/call-arguments.js';
import { CallContext } from '../core/call-context.js';
import { shutdownError } from '../core/error-texts.js';
import { localLimitError, LocalWait } from '../core/local-wait.js';
import { isInside } from '../core/reentry/context.js';
import { type LockedCall } from './locked-call.js';

/** A call that waits for the result of another one. */
interface Sharer {
  readonly wait: LocalWait<unknown>;
  /** The module closes. */
  close(): void;
  /** From now on, its own limit applies. */
  limit(): void;
}

/** A call that runs, or waits for its lock, and the calls that share its result. */
interface Run {
  readonly call: LockedCall;
  readonly type: unknown;
  readonly sharers: Set<Sharer>;
  isInside: boolean;
  isOver: boolean;
}

/** The runs of which this chain of calls is a part. They may have released their locks. */
const around = new AsyncLocalStorage<readonly Run[]>();

/** Runs a call; `onInside` is called when it has its lock. */
type Start = (key: Key, onInside: () => void) => Promise<unknown>;

/** For error texts. */
const HOLDER = 'another call of this process, whose result it shares';

export class SharedCalls {
  /** By their keys: only calls of different methods share an entry. */
  readonly #runs = new Map<string, Run[]>();

  constructor(
    private readonly locker: Locker,
    private readonly waitMs: number,
  ) {}

  /**
   * Shares the result of a call of the same method, on an instance of the same class, with the same keys. Without such a call, `start`
   * runs this call for all that come until it has settled. A call inside a hold of one of the keys, or inside the call whose result it
   * would share, runs by itself, because that result might wait for it.
   * @throws (also at once) what the key function and `start` throw
   */
  run(call: LockedCall, self: unknown, args: readonly unknown[], start: Start): Promise<unknown> {
    const key = call.keyOf(self, args);
    const keys = keysOf(key);
    const type = (self as object | null | undefined)?.constructor;
    const id = JSON.stringify(keys);
    const same = this.#runs.get(id)?.find((run) => run.call === call && run.type === type);
    const outer = around.getStore()?.filter(({ isOver }) => !isOver) ?? [];
    if (keys.some((one) => isInside(one, this.locker.holds)) || (same && outer.includes(same)))
      return start(key, () => undefined);
    if (same) return this.#share(same, keys);
    const run = { call, type, sharers: new Set<Sharer>(), isInside: false, isOver: false };
    const onInside = (): void => {
      run.isInside = true;
      for (const sharer of run.sharers) sharer.limit();
    };
    return this.#begin(id, run, around.run([...outer, run], start, key, onInside));
  }

  #begin(id: string, run: Run, result: Promise<unknown>): Promise<unknown> {
    this.#runs.set(id, [...(this.#runs.get(id) ?? []), run]);
    const end = (): Sharer[] => {
      run.isOver = true;
      const others = this.#runs.get(id)!.filter((one) => one !== run);
      if (others.length > 0) this.#runs.set(id, others);
      else this.#runs.delete(id);
      return [...run.sharers];
    };
    // The caller gets its own promise: `result` has a handler, so Node would not report its rejection.
    return result.then(
      (value) => {
        for (const { wait } of end()) wait.succeed(value);
        return value;
      },
      (error: unknown) => {
        for (const { wait } of end()) wait.fail(error);
        throw error;
      },
    );
  }

  /**
   * While the other call waits for the lock, its limit applies, and it may run without the lock afterwards. The limit of this call
   * begins when the method begins.
   */
  #share(run: Run, keys: readonly string[]): Promise<unknown> {
    const { where, template, options } = run.call;
    const { signal, waitMs = this.waitMs, mode = 'write' } = options;
    const { clock, timers, events, awaited } = this.locker;
    const event = { where, template, key: keys.join(', '), keys, mode, note: undefined };
    const startedAt = clock.now();
    const context = new CallContext();
    if (signal?.aborted) return Promise.reject(signal.reason);
    events.emit('skipped', () => ({ ...event, reason: 'shared' }));
    const leave = (): void => {
      run.sharers.delete(sharer);
      this.locker.closing.delete(sharer);
    };
    const wait = new LocalWait<unknown>(timers, signal, leave);
    const limitError = () => localLimitError(this.locker, event, { waitMs, startedAt }, HOLDER);
    const sharer: Sharer = {
      wait,
      close: () => wait.fail(shutdownError()),
      limit: () => wait.limitBy(clock.now() + waitMs, () => wait.fail(context.run(limitError))),
    };
    run.sharers.add(sharer);
    if (run.isInside) sharer.limit();
    this.locker.closeWithModule(sharer);
    return awaited.keepAlive(wait.promise);
  }
}
