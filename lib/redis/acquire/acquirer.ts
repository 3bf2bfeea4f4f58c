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

/** An acquire that is not decided yet. */
interface Pending {
  readonly request: AcquireRequest;
  readonly timeoutMs: number;
  /** Until when it is sent again. */
  readonly until: number;
  /** The epoch of the connection when it began. */
  readonly epoch: number;
  readonly onLate: (reply: AcquireReply) => void;
  readonly resolve: (reply: AcquireReply | Promise<AcquireReply>) => void;
  readonly reject: (error: unknown) => void;
  /** How often it was sent. */
  sent: number;
  isWithdrawn: boolean;
  /** Withdraws its first command; false when that was sent. */
  withdraw: () => boolean;
}

/** A command of an acquire. */
interface Sent {
  /** By the name of its clock. */
  readonly server: string;
  /** On our monotonic clock. */
  readonly at: number;
  /** Unless it travels with others. */
  readonly call: ScriptCall | null;
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
  acquire(request: AcquireRequest, timeoutMs: number, onLate: (reply: AcquireReply) => void): Promise<AcquireReply> {
    const { clock, commands } = this.parts;
    return new Promise((resolve, reject) => {
      const pending: Pending = {
        request,
        timeoutMs,
        until: clock.now() + timeoutMs,
        epoch: commands.epoch,
        onLate,
        resolve,
        reject,
        sent: 0,
        isWithdrawn: false,
        withdraw: () => (pending.isWithdrawn = true),
      };
      this.#pending.set(request.attempt, pending);
      const question = this.#learnTime(request, timeoutMs);
      if (question)
        question.then(
          () => this.#send(pending),
          (error: unknown) => this.#fail(pending, error),
        );
      else this.#send(pending);
    });
  }

  /** When an acquire that is sent now was sent, and until when it may arrive. */
  timesOf({ lock, timeoutMs }: Pick<Operation, 'lock' | 'timeoutMs'>): AcquireTimes {
    const sentMicros = this.#serverClock.micros(this.#serverOf(lock));
    return { sentMicros, untilMicros: sentMicros && sentMicros + Math.round(maxAcquireAgeMs(timeoutMs) * 1_000) };
  }

  /** Sends it: with others of this turn, unless it is for several locks, or replicas have to confirm it. */
  #send(pending: Pending): void {
    const { calls, replicas, batches, clock } = this.parts;
    const { request, timeoutMs } = pending;
    pending.sent += 1;
    if (replicas || request.keys.length > 1)
      return batches.behind(() => this.#guarded(pending, () => this.#sendAlone(pending)));
    this.#guarded(pending, () => {
      const operation = calls.acquire(request, timeoutMs, clock.now());
      const withdraw = batches.start(operation, this.#outcomeOf(pending, operation.lock, null));
      pending.withdraw = pending.sent === 1 ? withdraw : () => false;
    });
  }

  #sendAlone(pending: Pending): void {
    const { calls, keys, clock, commands } = this.parts;
    const { request, timeoutMs } = pending;
    const lock = keys.storageKey(request.keys[0]!);
    const times = this.timesOf({ lock, timeoutMs });
    const call =
      request.keys.length > 1
        ? calls.acquireMany(request, timeoutMs, times)
        : calls.alone(calls.acquire(request, timeoutMs, clock.now()), times);
    const onStart = (withdraw: () => boolean): void => {
      pending.withdraw = pending.sent === 1 ? withdraw : () => false;
    };
    const { resolve, reject, onLate } = this.#outcomeOf(pending, lock, call);
    commands
      .run({ ...call, onLate, onStart })
      .then(resolve)
      .catch(reject);
  }

  /** Sends it, unless it was withdrawn before. */
  #guarded(pending: Pending, send: () => void): void {
    if (pending.isWithdrawn) {
      return this.#fail(pending, new LockStoreError('It was withdrawn before it was sent.', { wasSent: false }));
    }
    try {
      send();
    } catch (error) {
      this.#fail(pending, error);
    }
  }

  #outcomeOf(pending: Pending, lock: string, call: ScriptCall | null) {
    const sent: Sent = { server: this.#serverOf(lock), at: this.parts.clock.now(), call };
    return {
      resolve: (reply: string[]): void => this.#onReply(pending, sent, reply),
      reject: (error: unknown): void => this.#fail(pending, error),
      onLate: (late: string[]): void => {
        if (!isTooLate(late)) pending.onLate(this.#read(pending, late));
      },
    };
  }

  /** Sends it again at once, as the same attempt, while the server has not come to an outcome. */
  #onReply(pending: Pending, { server, at, call }: Sent, reply: readonly string[]): void {
    const { request, sent, until } = pending;
    const { clock, replicas } = this.parts;
    pending.withdraw = () => false;
    if (reply[0] === 'busy' && request.waiterLeaseMs > 0) this.parts.onWaiting(isListenedTo(reply), at);
    this.#serverClock.onReply(server, serverMicrosIn(reply));
    const isLate = isTooLate(reply);
    if ((isLate || isUnservedAcquire(reply)) && sent < MAX_SENT && clock.now() < until) return this.#send(pending);
    if (isLate) {
      const key = request.keys.join(', ');
      const text = `Redis refused every command for the lock "${key}" as too late. Does its clock jump?`;
      throw new LockStoreError(text, { key });
    }
    const needsReplicas = replicas && call && reply[0] === 'granted';
    const decided = needsReplicas ? this.#confirm(pending, replicas, call) : this.#read(pending, reply);
    this.#forget(pending);
    pending.resolve(decided);
  }

  #fail(pending: Pending, error: unknown): void {
    this.#forget(pending);
    const { request, sent, reject } = pending;
    // An earlier command was answered, and may have left something on the server.
    reject(sent > 1 && error instanceof LockStoreError ? renamedError(error, request.keys.join(', '), true) : error);
  }

  #forget(pending: Pending): void {
    const { attempt } = pending.request;
    if (this.#pending.get(attempt) === pending) this.#pending.delete(attempt);
  }

  /** Waits until replicas have a grant; otherwise gives it back. */
  async #confirm(pending: Pending, replicas: ReplicaAcks, call: ScriptCall): Promise<AcquireReply> {
    const { request, timeoutMs } = pending;
    try {
      const confirmed = await replicas.confirm(call);
      if (!isTooLate(confirmed)) return this.#read(pending, confirmed);
      const { key } = call;
      throw new LockStoreError(`The lock "${key}" ended before replicas confirmed it.`, { key });
    } catch (cause) {
      if (!(cause instanceof LockStoreError)) throw cause;
      const releases = releasesOfAttempt({ ...request, unanswered: true });
      await Promise.allSettled(releases.map((release) => this.parts.release(release, timeoutMs)));
      return { outcome: 'given-back', cause };
    }
  }

  /** When a connection was lost meanwhile, the reply may be that of a second copy, and the first may still arrive. */
  #read({ request, epoch }: Pending, reply: readonly string[]): AcquireReply {
    const { commands } = this.parts;
    const answer = readAcquireReply(request, reply);
    const unanswered = commands.epoch === epoch ? null : { unanswered: true };
    if (answer.outcome !== 'busy' && !unanswered) return answer;
    if (answer.outcome !== 'busy') return { ...answer, ...unanswered };
    return { ...answer, ...unanswered, server: commands.serverId ?? undefined };
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
