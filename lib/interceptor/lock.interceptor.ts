import { Inject, Injectable } from '@nestjs/common';
import { LockBusyError, LockConfigurationError } from '../core/lock.errors.js';
import { type Lock } from '../core/lock.js';
import { RedisLockService } from '../redis-lock.service.js';
import { type LockedCall, type LockedOptions } from './locked-call.js';

/** The around advice of the decorators: fills the key, acquires, runs the method under the watchdog, releases. */
@Injectable()
export class LockInterceptor {
  constructor(@Inject(RedisLockService) private readonly locks: RedisLockService) {}

  /** The name of the connection whose locks these are. */
  get connection(): string | undefined {
    return this.locks.connection;
  }

  /**
   * Runs `proceed` under the lock of a decorated call.
   * @throws what `RedisLockService.withLock` throws; LockConfigurationError when the method returned no promise but
   *   something that goes on after it
   */
  async run(call: LockedCall, self: unknown, args: readonly unknown[], proceed: () => unknown): Promise<unknown> {
    const key = singleKey(call.keyOf(self, args), call.where);
    const { ifBusy = 'wait', connection: _connection, ...options } = call.options;
    let started = false;
    const work = async (_lock: Lock): Promise<unknown> => {
      started = true;
      const returned = proceed();
      refuseUnfinished(returned, call.where);
      const result = await returned;
      refuseUnfinished(result, call.where);
      return result;
    };
    try {
      return await this.locks.runLocked(key, ifBusy === 'wait' ? options : { ...options, waitMs: 0 }, call.where, work);
    } catch (error) {
      // Once the method runs, a busy error is that of a lock it asked for itself.
      if (started || ifBusy === 'wait' || !(error instanceof LockBusyError)) throw error;
      return onBusy(ifBusy, error, key, args);
    }
  }
}

function onBusy(ifBusy: LockedOptions['ifBusy'], error: LockBusyError, key: string, args: readonly unknown[]): unknown {
  if (typeof ifBusy === 'function') return ifBusy(key, ...args);
  if (ifBusy === 'skip') return undefined;
  throw error;
}

function singleKey(keys: string | readonly string[], where: string): string {
  if (typeof keys === 'string') return keys;
  if (keys.length === 1) return keys[0]!;
  throw new LockConfigurationError(`${where}: expected one key, got ${keys.length}; lock them one inside the other.`);
}

/** What goes on after the method returned would go on without the lock. */
function refuseUnfinished(result: unknown, where: string): void {
  const value = result as { subscribe?: unknown; pipe?: unknown; [Symbol.asyncIterator]?: unknown } | null | undefined;
  if (typeof value !== 'object' || value === null) return;
  const kind =
    typeof value.subscribe === 'function' ? 'an Observable'
    : typeof value[Symbol.asyncIterator] === 'function' ? 'an async iterable'
    : typeof value.pipe === 'function' ? 'a stream'
    : null; // prettier-ignore
  if (kind === null) return;
  throw new LockConfigurationError(
    `${where} is locked and returned ${kind}, which goes on after the lock is released. Return a promise of the whole result.`,
  );
}
