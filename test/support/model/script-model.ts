import { type LockMode } from '../../../lib/core/lock.errors.js';
import { type LostReply, type WakeUp } from '../../../lib/core/store/lock-store.js';
import { type LockScripts } from '../../../lib/redis/scripts/lock-scripts.js';
import { type MemoryLock } from './memory-lock.js';
import { MemoryLocks } from './memory-locks.js';
import { hashOfModel } from './model-hash.js';
import { holdOf, keysOf, numberOf, releaseOf, requestOf, textOf, type Values } from '../redis/wire-values.js';

/** A script that the model runs; a batch consists of such. */
export type ModelledScript = Exclude<keyof LockScripts, 'batch' | 'appendHistory' | 'readHistory'>;

/** A script's reply on the wire. */
export type Reply = (string | number)[];

/** The server that the scripts run on. */
export interface ModelServer {
  /** Its clock, in microseconds since the epoch. */
  micros(): number;
  /** How many subscribers a channel has. */
  subscribers(channel: string): number;
  /** Sends a message to whoever listens, perhaps to nobody. */
  publish(channel: string, message: string): void;
}

const WRONG_TYPE = 'WRONGTYPE Operation against a key holding the wrong kind of value';
const OUT_OF_MEMORY = "OOM command not allowed when used memory > 'maxmemory'.";

/** Why a server refuses all writes; any other such error works as well. */
export const READ_ONLY = "READONLY You can't write against a read only replica.";

/**
 * The lock scripts without a Redis: `run()` takes the name of a script and its operands, and returns what the Lua would reply.
 * Random games compare the two, reply by reply and field by field (test/scripts/model.spec.ts).
 */
export class ScriptModel {
  /** Whether the server is full: it refuses what needs memory as the first write of a script. */
  isFull = false;
  /** The error of a server that refuses the first write of a script, whatever it is. */
  refusesWrites: string | undefined;
  /** The keys under which something else than a hash is. */
  readonly strangers = new Set<string>();
  readonly locks: MemoryLocks;
  /** Who held a lock last since it was packed. */
  readonly #holders = new WeakMap<MemoryLock, string>();
  #values: Values = {};

  /** `Locks`: the class to use, for example with a bug in it. */
  constructor(
    private readonly server: ModelServer,
    Locks = MemoryLocks,
  ) {
    const tell = (attempt: string, wakeUp: WakeUp): boolean => this.#tell(attempt, wakeUp);
    this.locks = new Locks(tell, () => server.micros());
    this.locks.settings.isShort = true;
    this.locks.writes.refuse = (adds) => this.#refuse(adds);
  }

  /**
   * Runs a script to its end: nothing else happens meanwhile.
   * @throws ReplyError with the text of Redis; then nothing was changed, but a waiter may have been told to ask
   */
  run(name: ModelledScript, values: Values): Reply {
    if (keysOf(values).some((key) => this.strangers.has(key))) throw replyError(WRONG_TYPE);
    this.#values = values;
    if (values['keepMs'] !== undefined) this.locks.settings.keepMs = numberOf(values, 'keepMs');
    const kept = this.#keptUntil(name, values);
    const reply = this[name === 'acquireMany' ? 'acquire' : name](values);
    for (const key of keysOf(values)) this.#onChanged(this.look(key), kept);
    return reply;
  }

  #onChanged(lock: MemoryLock, kept: number | undefined): void {
    const [hold] = lock.holds.values();
    if (!lock.isPacked) this.#holders.delete(lock);
    else if (hold) this.#holders.set(lock, hold.holder);
    if (kept !== undefined) lock.expiresAt = kept;
  }

  /** The time of expiry that the plain path of a release leaves as it is; undefined when the script sets it. */
  #keptUntil(name: ModelledScript, values: Values): number | undefined {
    if (this.isFull || this.refusesWrites || name !== 'release') return undefined;
    const lock = this.look(keysOf(values)[0]!);
    if (!lock.isPacked || lock.wasReleased(textOf(values, 'attempt'))) return undefined;
    return releasesPlainly(lock, values, this.server.micros()) ? lock.expiresAt : undefined;
  }

  /** The locks that Redis would have, by their keys. */
  get keys(): readonly string[] {
    return this.locks.keys.filter((key) => this.look(key).expiresAt !== undefined);
  }

  /** A lock as it is; a new one if there is none. */
  look(key: string): MemoryLock {
    return this.locks.look(key).lock;
  }

  hash(key: string): Record<string, string> {
    const lock = this.look(key);
    return hashOfModel(lock, this.#holders.get(lock));
  }

  /** Deletes a key, or all. */
  delete(keys: readonly string[] = this.locks.keys): void {
    for (const key of keys) this.locks.delete(key);
  }

  private acquire(values: Values): Reply {
    const request = requestOf(values);
    const { attempt, keys } = request;
    const reply = this.locks.acquire(request);
    const { now, holds } = this.locks.lock(keys[0]!);
    if (reply.outcome === 'refused' && reply.reason === 'late') return ['refused', attempt, now, 'late', reply.micros];
    if (reply.outcome === 'refused') {
      return ['refused', attempt, now, reply.reason, reply.claimedBy ?? reply.permits ?? ''];
    }
    if ('rough' in reply) {
      const { rough, holder = '', owner = '', lastToken, isFull, permits = '' } = reply;
      const { retryMs, ahead, unserved } = rough;
      const state = [
        retryMs,
        ahead,
        holder,
        owner,
        this.#listeners(attempt),
        unserved ? 1 : '',
        lastToken!,
        isFull ? 1 : '',
        permits,
      ];
      return ['busy', attempt, now, ...state];
    }
    if (reply.outcome !== 'granted') throw new Error(`Unexpected outcome: ${reply.outcome}.`);
    const { fencingTokens, remainingMs, fireMs } = reply;
    if (keys.length > 1) return ['granted', attempt, now, remainingMs, ...fencingTokens];
    return ['granted', attempt, now, fencingTokens[0]!, remainingMs, holds.size, fireMs ?? ''];
  }

  private release(values: Values): Reply {
    const request = releaseOf(values);
    const reply = this.locks.release(request);
    const unserved = this.locks.lock(request.key).unserved ? 1 : '';
    return [reply.outcome, ...this.#echo(request), reply.holds, reply.lastToken, unserved];
  }

  private renew(values: Values): Reply {
    const hold = holdOf(values);
    const mode = values['mode'] as LockMode;
    const reply = this.locks.renew({ ...hold, leaseMs: numberOf(values, 'leaseMs'), mode });
    if (reply.outcome === 'unknown') throw new Error(`Unexpected outcome: ${reply.outcome}.`);
    return reply.outcome === 'lost' ? this.#lost(hold, reply) : ['renewed', ...this.#echo(hold), reply.remainingMs];
  }

  private downgrade(values: Values): Reply {
    const hold = holdOf(values);
    const reply = this.locks.downgrade(hold);
    return reply.outcome === 'lost' ? this.#lost(hold, reply) : [reply.outcome, ...this.#echo(hold)];
  }

  private adopt(values: Values): Reply {
    const hold = holdOf(values);
    const reply = this.locks.adopt({
      ...hold,
      from: textOf(values, 'from'),
      leaseMs: numberOf(values, 'leaseMs'),
      holder: textOf(values, 'holder'),
      unanswered: numberOf(values, 'unanswered') === 1,
    });
    return reply.outcome === 'lost' ? this.#lost(hold, reply) : ['adopted', ...this.#echo(hold), reply.remainingMs];
  }

  private writeBack(values: Values): Reply {
    const hold = holdOf(values);
    const reply = this.locks.writeBack(hold, numberOf(values, 'newToken'));
    return reply.outcome === 'lost' ? this.#lost(hold, reply) : [reply.outcome, ...this.#echo(hold)];
  }

  private forceRelease(values: Values): Reply {
    const { key, attempt } = holdOf(values);
    const { outcome, holds } = this.locks.forceRelease(key, attempt, numberOf(values, 'seenToken'));
    return [outcome, ...this.#echo({ key, attempt }), holds];
  }

  private setPermits(values: Values): Reply {
    const { key, attempt } = holdOf(values);
    const permits = textOf(values, 'permits');
    this.locks.setPermits(key, permits === '-' ? undefined : Number(permits));
    return ['set', ...this.#echo({ key, attempt })];
  }

  private inspect(values: Values): Reply {
    const [key] = keysOf(values);
    return [this.locks.look(key!).now, ...Object.entries(this.hash(key!)).flat()];
  }

  #lost(hold: Target, { lastToken, revoked }: LostReply): Reply {
    return ['lost', ...this.#echo(hold), lastToken, revoked ? 1 : 0];
  }

  /** The attempt and the server's time, which follow the outcome in each reply. */
  #echo({ key, attempt }: Target): [string, number] {
    return [attempt, this.locks.lock(key).now];
  }

  /** Whether a server that is not the only one counts receivers. */
  get #counts(): boolean {
    return String(this.#values['countReceivers']) === '1';
  }

  #listeners(attempt: string): number | '' {
    return this.#counts ? this.server.subscribers(this.#channelOf(attempt)) : '';
  }

  #tell(attempt: string, wakeUp: WakeUp): boolean {
    const channel = this.#channelOf(attempt);
    // Listeners are counted before a grant is published only: its message would reach those of replicas, too.
    const isHeard = this.server.subscribers(channel) > 0 || !this.#counts;
    if (isHeard || wakeUp.kind !== 'granted') this.server.publish(channel, messageOf(attempt, wakeUp));
    return isHeard;
  }

  #channelOf(attempt: string): string {
    return `${String(this.#values['channelPrefix'])}${attempt.split('.')[0]}`;
  }

  #refuse(adds: boolean): void {
    if (this.refusesWrites) throw replyError(this.refusesWrites);
    if (this.isFull && adds) throw replyError(OUT_OF_MEMORY);
  }
}

/** Whether the plain path releases, and leaves the time to live (PLAIN_RELEASE in lib/redis/scripts/release.ts). */
function releasesPlainly({ holds }: MemoryLock, values: Values, micros: number): boolean {
  const hold = holds.get(textOf(values, 'attempt'));
  if (!hold || numberOf(values, 'plain') !== 1) return false;
  return hold.deadline > Math.floor(micros / 1_000) && hold.lease <= numberOf(values, 'keepMs');
}

interface Target {
  readonly key: string;
  readonly attempt: string;
}

const replyError = (message: string): Error => Object.assign(new Error(message), { name: 'ReplyError' });

function messageOf(attempt: string, wakeUp: WakeUp): string {
  if (wakeUp.kind !== 'granted') return `${wakeUp.kind} ${attempt}`;
  const { fencingToken, serverTimeMs, remainingMs } = wakeUp;
  return `granted ${attempt} ${fencingToken} ${serverTimeMs} ${remainingMs}`;
}
