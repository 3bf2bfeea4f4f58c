import { type Clock } from '../../core/clock.js';
import { LockStoreError } from '../../core/lock.errors.js';
import { releasesOfAttempt } from '../../core/store/attempt-ids.js';
import { type AcquireReply, type AcquireRequest, type LockStore } from '../../core/store/lock-store.js';
import { type SingleClient } from '../client/redis-client.js';
import { addressText } from '../client/server-address.js';
import { type RedisKeys } from '../codec/redis-keys.js';
import { type AcquireTimes, type Operation, type ScriptCalls } from '../codec/script-calls.js';
import {
  isListenedTo,
  isTooLate,
  isUnservedAcquire,
  readAcquireReply,
  serverMicrosIn,
} from '../codec/store-replies.js';
import { type CommandRunner, type ScriptCall } from '../connection/command-runner.js';
import { renamedError } from '../connection/redis-errors.js';
import { type OperationBatches } from '../operation-batches.js';
import { MAX_SENT, maxAcquireAgeMs } from '../timing.js';
import { type ReplicaAcks } from './replica-acks.js';
import { ServerClock } from './server-clock.js';

/** The name of the server of a client that is not one of a cluster. */
const ONLY_SERVER = '';

/** What an acquirer works with. */
interface AcquirerParts {
  readonly commands: CommandRunner;
  readonly calls: ScriptCalls;
  readonly batches: OperationBatches;
  readonly keys: RedisKeys;
  readonly clock: Clock;
  readonly replicas: ReplicaAcks | null;
  readonly release: LockStore['release'];
  /** A command sent at `sentAt` has put a call in the queue; `isHeard`: its server knows a subscriber of ours. */
  readonly onWaiting: (isHeard: boolean, sentAt: number) => void;
}

/** An acquire that has no answer yet. */
interface Pending {
  /** Withdraws its command; false when that was sent. */
  withdraw: () => boolean;
}

/** An acquire under way; `call` unless it travels with others. */
interface Running {
  readonly call: ScriptCall | null;
  readonly replied: Promise<string[]>;
}

/** The command that was sent last, and its reply. */
interface Answered extends Pick<Running, 'call'> {
  readonly reply: readonly string[];
}

/** Sends acquires to Redis until there is an outcome: granted, busy or refused. */
export class Acquirer {
  readonly #pending = new Map<string, Pending>();
  readonly #serverClock: ServerClock;

  constructor(private readonly parts: AcquirerParts) {
    this.#serverClock = new ServerClock(parts.clock);
  }

  /** As `LockStore.withdraw`. */
  withdraw(attempt: string): boolean {
    return this.#pending.get(attempt)?.withdraw() ?? false;
  }

  /** As `LockStore.acquire`. */
  async acquire(
    request: AcquireRequest,
    timeoutMs: number,
    onLate: (reply: AcquireReply) => void,
  ): Promise<AcquireReply> {
    const { commands, replicas } = this.parts;
    const { epoch } = commands;
    const read = (reply: readonly string[]): AcquireReply => this.#read(request, reply, commands.epoch !== epoch);
    const { call, reply } = await this.#send(request, timeoutMs, (late) => onLate(read(late)));
    if (!replicas || !call || reply[0] !== 'granted') return read(reply);
    try {
      const confirmed = await replicas.confirm(call);
      if (!isTooLate(confirmed)) return read(confirmed);
      const { key } = call;
      throw new LockStoreError(`The lock "${key}" ended before replicas confirmed it.`, { key });
    } catch (cause) {
      if (!(cause instanceof LockStoreError)) throw cause;
      const releases = releasesOfAttempt({ ...request, unanswered: true });
      await Promise.allSettled(releases.map((release) => this.parts.release(release, timeoutMs)));
      return { outcome: 'given-back', cause };
    }
  }

  /** `maybeResent`: the reply may be that of a second copy, and the first may still arrive. */
  #read(request: AcquireRequest, reply: readonly string[], maybeResent: boolean): AcquireReply {
    const answer = readAcquireReply(request, reply);
    const unanswered = maybeResent ? { unanswered: true } : {};
    if (answer.outcome !== 'busy') return { ...answer, ...unanswered };
    return { ...answer, ...unanswered, server: this.parts.commands.serverId ?? undefined };
  }

  /** When an acquire that is sent now was sent, and until when it may arrive. */
  timesOf({ lock, timeoutMs }: Pick<Operation, 'lock' | 'timeoutMs'>): AcquireTimes {
    const sentMicros = this.#serverClock.micros(this.#serverOf(lock));
    return { sentMicros, untilMicros: sentMicros && sentMicros + Math.round(maxAcquireAgeMs(timeoutMs) * 1_000) };
  }

  /** Sends an acquire that may be withdrawn until its first command is sent. */
  async #send(request: AcquireRequest, timeoutMs: number, onLate: (reply: string[]) => void): Promise<Answered> {
    let isWithdrawn = false;
    const pending: Pending = { withdraw: () => (isWithdrawn = true) };
    this.#pending.set(request.attempt, pending);
    try {
      const question = this.#learnTime(request, timeoutMs);
      if (question) await question;
      if (isWithdrawn) throw new LockStoreError('It was withdrawn before it was sent.', { wasSent: false });
      pending.withdraw = () => false;
      return await this.#untilDecided(request, timeoutMs, pending, onLate);
    } finally {
      if (this.#pending.get(request.attempt) === pending) this.#pending.delete(request.attempt);
    }
  }

  /** Sends it again at once, as the same attempt, while the server has not come to an outcome. */
  async #untilDecided(
    request: AcquireRequest,
    timeoutMs: number,
    pending: Pending,
    onLate: (reply: string[]) => void,
  ): Promise<Answered> {
    const { clock } = this.parts;
    const key = request.keys.join(', ');
    const until = clock.now() + timeoutMs;
    for (let sent = 1; ; sent += 1) {
      const sentAt = clock.now();
      const server = this.#serverOf(this.parts.keys.storageKey(request.keys[0]!));
      const onStart = (withdraw: () => boolean): void => void (pending.withdraw = withdraw);
      const { call, replied } = this.#run(request, timeoutMs, {
        onLate: (late) => !isTooLate(late) && onLate(late),
        ...(sent === 1 && { onStart }),
      });
      // An earlier command was answered, and may have left something on the server.
      const reply = await replied.catch((error: unknown) => {
        throw sent === 1 || !(error instanceof LockStoreError) ? error : renamedError(error, key, true);
      });
      pending.withdraw = () => false;
      if (reply[0] === 'busy' && request.waiterLeaseMs > 0) this.parts.onWaiting(isListenedTo(reply), sentAt);
      this.#serverClock.onReply(server, serverMicrosIn(reply));
      if (!isTooLate(reply) && !isUnservedAcquire(reply)) return { call, reply };
      if (sent < MAX_SENT && clock.now() < until) continue;
      if (!isTooLate(reply)) return { call, reply };
      throw new LockStoreError(`Redis refused every command for the lock "${key}" as too late. Does its clock jump?`, {
        key,
      });
    }
  }

  /** Sends it once: with others of this turn, unless it is for several locks, or replicas have to confirm it. */
  #run(request: AcquireRequest, timeoutMs: number, hooks: Pick<ScriptCall, 'onLate' | 'onStart'>): Running {
    const { calls, keys, commands, clock, replicas, batches } = this.parts;
    if (request.keys.length > 1) {
      const times = this.timesOf({ lock: keys.storageKey(request.keys[0]!), timeoutMs });
      const call = calls.acquireMany(request, timeoutMs, times);
      return { call, replied: commands.run({ ...call, ...hooks }) };
    }
    const operation = calls.acquire(request, timeoutMs, clock.now());
    if (!replicas) return { call: null, replied: batches.run(operation, hooks.onLate, hooks.onStart) };
    const call = calls.alone(operation, this.timesOf(operation));
    return { call, replied: commands.run({ ...call, ...hooks }) };
  }

  /**
   * Learns the time of the server of a request, unless it is known. Of a cluster, only a reply tells which node serves: it refuses
   * the first acquire, which names no time, and reports its own.
   */
  #learnTime({ keys }: AcquireRequest, timeoutMs: number): Promise<void> | null {
    const { commands } = this.parts;
    if (commands.isCluster || this.#serverClock.knows(ONLY_SERVER)) return null;
    const client = commands.liveClient(this.parts.keys.storageKey(keys[0]!)) as SingleClient;
    const key = keys.join(', ');
    const ask = (): Promise<number> => commands.send(client, () => client.time(), { key, timeoutMs });
    return this.#serverClock.learn(ONLY_SERVER, ask).catch((error: unknown) => {
      throw error instanceof LockStoreError ? renamedError(error, key, false) : error;
    });
  }

  /** The server of a lock, as far as it is known. */
  #serverOf(storageKey: string): string {
    const { commands } = this.parts;
    const client = commands.isCluster && commands.liveClient(storageKey);
    const address = client && client.isCluster && client.masterAddressOf(storageKey);
    return address ? addressText(address) : ONLY_SERVER;
  }
}
