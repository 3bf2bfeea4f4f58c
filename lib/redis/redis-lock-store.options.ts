import { type Clock } from '../core/clock.js';
import { type HistoryLimits } from '../core/history/history-entry.js';
import { type Randomness } from '../core/randomness.js';
import { type Reporter } from '../core/reporter.js';
import { type AfterTurn } from '../core/runtime.js';
import { type RedisConnection } from './client/redis-connection.js';
import { type LockScripts } from './scripts/lock-scripts.js';

/** The options of `RedisLockStore`. */
export interface RedisLockStoreOptions {
  /** The client id of the quorum that this store is a node of; by default, a random one. */
  readonly clientId?: string;
  readonly connection: RedisConnection;
  readonly keyPrefix: string;
  readonly keepMs: number;
  /** How long a command of an operator may take. */
  readonly operatorTimeoutMs?: number;
  readonly minReplicas: number;
  readonly replicaTimeoutMs: number;
  readonly durable?: 'aof' | undefined;
  /** The option of the module; a server without support for it is reported. */
  readonly history?: HistoryLimits | null;
  readonly hashTag?: ((key: string) => string | undefined) | undefined;
  readonly scripts: LockScripts;
  readonly clock: Clock;
  readonly random: Randomness;
  readonly afterTurn: AfterTurn;
  readonly reporter: Reporter;
}
