import 'reflect-metadata';
import { Inject } from '@nestjs/common';
import { checkedKey, quoted } from '../core/key.js';
import { LockConfigurationError, LockKeyError } from '../core/lock.errors.js';
import { LOCK_OPTIONS } from '../core/lock.options.js';
import { checkOptions, CONNECTION_NAME, option, type OptionTable } from '../core/option-checks.js';
import { messageOf } from '../core/reporter.js';
import { addBuilt, campaignOf, isMarkedLeader, markLeader, markOnLeader, unguardedMethods } from '../leader/leaders.js';
import { type LeaderHooks } from '../leader/leadership.js';
import { getLockServiceToken } from '../redis-lock.tokens.js';
import { copyMetadata, refuseStandardDecorator } from './decorated-method.js';

/** The options of `@Leader`. */
export interface LeaderOptions {
  /**
   * The lease of the leader, in milliseconds: when its process dies, another instance leads after at most this time.
   * @default the module's `leaseMs`
   */
  leaseMs?: number;
  /**
   * The name of the connection to campaign on.
   * @default the connection without a name
   */
  connection?: string;
}

const LEADER_OPTIONS = {
  leaseMs: LOCK_OPTIONS.leaseMs,
  connection: option(CONNECTION_NAME),
} satisfies OptionTable<LeaderOptions>;

/**
 * Makes one instance of the app lead at a time, from the start of the app to its shutdown: its object of this class is elected, and
 * the methods with `@Cron`, `@Interval` or `@Timeout` run only while it leads; elsewhere they resolve `undefined`. The class may
 * implement `LeaderHooks`; `leadershipOf(this)` shows whether it leads. The key is a plain text: the key of a lock. Example:
 * `@Leader('reports') @Injectable() class Reports { … }`
 * @throws LockKeyError, LockConfigurationError, LockLostError
 */
export function Leader(
  key: string,
  options: LeaderOptions = {},
): (target: abstract new (...args: any[]) => LeaderHooks & object) => void {
  refuseNoKey(key);
  return (target: Function, ...member: unknown[]): void => {
    refuseStandardDecorator(member[0]);
    const where = `@Leader of ${typeof target === 'function' ? target.name : 'an object'}`;
    if (typeof target !== 'function' || member.length > 0) {
      throw new LockConfigurationError(`${where}: a member cannot lead; put the decorator on a class.`);
    }
    const prototype = target.prototype as object;
    if (isMarkedLeader(prototype)) {
      throw new LockConfigurationError(`${where}: the class has two keys; write the decorator once.`);
    }
    const { connection, leaseMs } = checkLeader(key, options, where);
    markLeader(prototype, { key, connection, leaseMs });
    // An app without the module does not start.
    const token = getLockServiceToken(connection);
    Inject(token)(prototype, token);
    // Nest sets it on each object that it builds, also on objects after the start of the app, for which it calls no hooks.
    Object.defineProperty(prototype, token, {
      set(this: object, service: object) {
        addBuilt(this, service);
      },
      configurable: true,
    });
    for (const [name, method] of unguardedMethods(prototype)) {
      Object.defineProperty(prototype, name, {
        value: onLeader(method, `${target.name}.${String(name)}`),
        writable: true,
        configurable: true,
      });
    }
  };
}

/** Without parentheses, the decorator gets the class in place of its key, and would do nothing. */
function refuseNoKey(key: unknown): void {
  if (typeof key !== 'function') return;
  throw new LockConfigurationError(
    `${key.name}: @Leader is written without parentheses, so it has no key; write @Leader('reports').`,
  );
}

function checkLeader(key: unknown, options: LeaderOptions, where: string): LeaderOptions {
  try {
    if (checkedKey(key).includes('<')) {
      throw new LockKeyError(`the key ${quoted(key as string)} has a placeholder, but a class has no arguments.`);
    }
    return checkOptions(options, LEADER_OPTIONS);
  } catch (error) {
    const Kind = error instanceof LockKeyError ? LockKeyError : LockConfigurationError;
    throw new Kind(`${where}: ${messageOf(error)}`, { cause: error });
  }
}

/** Wraps a scheduled method when its class is defined, before a scheduler can read it. */
function onLeader(method: Function, where: string): Function {
  const guarded = new Proxy(method, {
    apply: async (_method, self: unknown, args: unknown[]): Promise<unknown> =>
      campaignOf(self, where).runCall(where, () => method.apply(self, args) as unknown),
  });
  copyMetadata(method, guarded);
  markOnLeader(guarded);
  return guarded;
}
