import { HISTORY_LIMIT } from '../core/history/history-entry.js';
import { checkKeyPrefix, checkOwner } from '../core/option-checks.js';
import { messageOf } from '../core/reporter.js';
import { type RedisConnection } from '../redis/client/redis-connection.js';
import { connectionOf } from './connection.js';
import { type Call, type Environment, variableOf } from './read-arguments.js';
import { UsageError } from './usage.js';

/** What a command works with: all options, checked, with the defaults. */
export interface Settings {
  readonly connection: RedisConnection | readonly RedisConnection[];
  readonly isQuorum: boolean;
  readonly isCluster: boolean;
  /** Somebody besides this tool finds the master: sentinels, a cluster or a quorum. */
  readonly findsMaster: boolean;
  readonly keyPrefix: string;
  readonly hashTag: string | undefined;
  readonly timeoutMs: number;
  readonly limit: number;
  readonly intervalMs: number;
  readonly json: boolean;
  readonly readOnly: boolean;
  readonly yes: boolean;
  /** Who uses the tool, by the command line. */
  readonly by: string | undefined;
}

/**
 * Checks the options of a call and fills in the defaults.
 * @throws UsageError
 */
export function settingsOf(call: Call, env: Environment): Settings {
  const { given, fromCommandLine } = call;
  const whole = (option: 'timeout' | 'limit' | 'interval', byDefault: number, min: number, max: number): number => {
    const value = given[option];
    if (value === undefined) return byDefault;
    if (/^\d{1,9}$/.test(value) && Number(value) >= min && Number(value) <= max) return Number(value);
    const name = fromCommandLine.has(option) ? `--${option}` : variableOf(option);
    throw new UsageError(`Expected ${name} to be a whole number from ${min} to ${max}.`);
  };
  const timeoutMs = whole('timeout', 5_000, 100, 600_000);
  const connection = connectionOf(given, env, timeoutMs, fromCommandLine);
  return {
    connection,
    isQuorum: Array.isArray(connection),
    isCluster: given.cluster !== undefined,
    findsMaster: given.cluster !== undefined || given.sentinel !== undefined || Array.isArray(connection),
    keyPrefix: prefixOf(given.prefix),
    hashTag: given['hash-tag'],
    timeoutMs,
    limit:
      call.command === 'history'
        ? whole('limit', HISTORY_LIMIT.byDefault, 1, HISTORY_LIMIT.max)
        : whole('limit', 1_000, 1, 1_000_000),
    intervalMs: whole('interval', 1_000, 100, 3_600_000),
    json: given.json ?? false,
    readOnly: given['read-only'] ?? false,
    yes: given.yes ?? false,
    by: byOf(given.by),
  };
}

function prefixOf(given = 'lock:'): string {
  checkedAs('--prefix', '`keyPrefix`', () => checkKeyPrefix(given));
  return given;
}

function byOf(given: string | undefined): string | undefined {
  if (given !== undefined) checkedAs('--by', '`by`', () => checkOwner(given, 'by'));
  return given;
}

/** Runs a check of the module, and names the option of the tool in its error. */
function checkedAs(option: string, name: string, check: () => void): void {
  try {
    check();
  } catch (error) {
    throw new UsageError(messageOf(error).replace(name, option));
  }
}
