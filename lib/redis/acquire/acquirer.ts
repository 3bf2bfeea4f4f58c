import { type Clock } from '../../core/clock.js';
import { FreshMap } from '../../core/fresh-map.js';
import { LockStoreError } from '../../core/lock.errors.js';
import { releasesOfAttempt } from '../../core/store/attempt-ids.js';
import { type AcquireOutcome } from '../../core/store/callback-store.js';
import {
  type AcquireReply,
  type AcquireRequest,
  type AdoptReply,
  type AdoptRequest,
  type LockStore,
} from '../../core/store/lock-store.js';
import { type SingleClient } from '../client/redis-client.js';
import { addressText } from '../client/server-address.js';
import { type RedisKeys } from '../codec/redis-keys.js';
import { type AcquireTimes, type Operation, type ScriptCalls } from '../codec/script-calls.js';
import { isListenedTo, isTooLate, readAcquireReply, readAdoptReply, serverMicrosIn } from '../codec/store-replies.js';
import { type CommandRunner, type ScriptCall } from '../connection/command-runner.js';
import { renamedError } from '../connection/redis-errors.js';
import { type OperationBatches } from '../operation-batches.js';
import { MAX_SENT, maxAcquireAgeMs } from '../timing.js';
import { ONLY_SERVER, PendingAcquire } from './pending-acquire.js';
import { type ReplicaAcks } from './replica-acks.js';
import { ServerClock } from './server-clock.js';

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

/** Sends acquires to Redis until there is an outcome: granted, busy or refused. */
export class Acquirer {
  readonly #pending = new FreshMap<string, PendingAcquire>();
  readonly #serverClock: ServerClock;

  constructor(private readonly parts: AcquirerParts) {
    this.#serverClock = new ServerClock(parts.clock);
  }

  /** As `LockStore.withdraw`. */
  withdraw(attempt: string): boolean {
    const pending = this.#pending.get(attempt);
    if (!pending) return false;
    const { withdrawable, sent } = pending;
    if (sent > 1) return false;
    // It waits for the time of the server, or for the end of the turn.
    if (!withdrawable) return (pending.isWithdrawn = true);
    return withdrawable.withdraw();
  }

  /** As `CallbackStore.startAcquire`. */
  start(request: AcquireRequest, timeoutMs: number, outcome: AcquireOutcome): void {
    const { clock, commands } = this.parts;
    const pending = new PendingAcquire(this, request, timeoutMs, clock.now(), commands.epoch, outcome);
    this.#pending.set(request.attempt, pending);
    const question = this.#learnTime(request, timeoutMs);
    if (!question) return this.#send(pending);
    question.then(
      () => this.#sendNow(pending),
      (error: unknown) => this.onFailure(pending, this.#refusalOf(pending) ?? error),
    );
  }

  /** As `LockStore.adopt`; with replicas to confirm it, an adoption counts as a grant does. */
  async adopt(request: AdoptRequest, timeoutMs: number): Promise<AdoptReply> {
    const { calls, commands, replicas } = this.parts;
    const { key } = request;
    const refusal = commands.refusal(key);
    if (refusal) throw refusal;
    const call = calls.adopt(request, timeoutMs);
    const reply = await commands.run(call);
    return readAdoptReply(key, replicas && reply[0] === 'adopted' ? await replicas.confirm(call) : reply);
  }

  /** When an acquire that is sent now was sent, and until when it may arrive. */
  timesOf({ lock, timeoutMs }: Pick<Operation, 'lock' | 'timeoutMs'>): AcquireTimes {
    const sentMicros = this.#serverClock.micros(this.#serverOf(lock));
    return { sentMicros, untilMicros: sentMicros && sentMicros + Math.round(maxAcquireAgeMs(timeoutMs) * 1_000) };
  }

  #sendNow(pending: PendingAcquire): void {
    pending.sentAt = this.parts.clock.now();
    this.#send(pending);
  }

  /** Sends it: with others of this turn, unless it is for several locks, or replicas have to confirm it. */
  #send(pending: PendingAcquire): void {
    const { replicas, batches } = this.parts;
    pending.sent += 1;
    if (!replicas && pending.request.keys.length === 1) this.#guarded(pending, this.#gather);
    else batches.behind(() => this.#guarded(pending, this.#sendAlone));
  }

  readonly #gather = (pending: PendingAcquire): void => {
    const { calls, batches } = this.parts;
    pending.operation = calls.acquire(pending.request, pending.timeoutMs, pending.sentAt);
    pending.server = this.#serverOf(pending.operation.lock);
    pending.withdrawable = pending;
    batches.start(pending);
  };

  readonly #sendAlone = (pending: PendingAcquire): void => {
    const { calls, keys, commands, clock } = this.parts;
    const { request, timeoutMs } = pending;
    const lock = keys.storageKey(request.keys[0]!);
    const times = this.timesOf({ lock, timeoutMs });
    pending.sentAt = clock.now();
    pending.server = this.#serverOf(lock);
    pending.call =
      request.keys.length > 1
        ? calls.acquireMany(request, timeoutMs, times)
        : calls.alone(calls.acquire(request, timeoutMs, pending.sentAt), times);
    const onLate = (reply: string[]): void => pending.onLate(reply);
    commands
      .run({ ...pending.call, onLate, onStart: (command) => void (pending.withdrawable = command) })
      .then((reply) => pending.resolve(reply))
      .catch((error: unknown) => pending.reject(error));
  };

  #refusalOf({ request }: PendingAcquire): LockStoreError | null {
    return this.parts.commands.refusal(request.keys.join(', '));
  }

  /** Sends it, unless it was withdrawn before, or its server is known to be unsafe. */
  #guarded(pending: PendingAcquire, send: (pending: PendingAcquire) => void): void {
    if (pending.isWithdrawn) {
      return this.onFailure(pending, new LockStoreError('It was withdrawn before it was sent.', { wasSent: false }));
    }
    const refusal = this.#refusalOf(pending);
    if (refusal) return this.onFailure(pending, refusal);
    try {
      send(pending);
    } catch (error) {
      this.onFailure(pending, error);
    }
  }

  /** Internal: sends it again at once, as the same attempt, while the server has not come to an outcome. */
  onReply(pending: PendingAcquire, reply: readonly string[]): void {
    const { request, sent, until, server, sentAt, call } = pending;
    const { clock, replicas } = this.parts;
    pending.withdrawable = null;
    if (reply[0] === 'busy' && request.waiterLeaseMs > 0) this.parts.onWaiting(isListenedTo(reply), sentAt);
    this.#serverClock.onReply(server, serverMicrosIn(reply));
    const isLate = isTooLate(reply);
    if (isLate && sent < MAX_SENT && clock.now() < until) return this.#sendNow(pending);
    if (isLate) {
      const key = request.keys.join(', ');
      const text = `Redis refused every command for the lock "${key}" as too late. Does its clock jump?`;
      throw new LockStoreError(text, { key });
    }
    if (replicas && call && reply[0] === 'granted') return this.#confirm(pending, replicas, call);
    const answer = this.#read(pending, reply);
    this.#forget(pending);
    pending.outcome.resolve(answer);
  }

  /** Internal. */
  onFailure(pending: PendingAcquire, error: unknown): void {
    this.#forget(pending);
    const { request, sent, outcome } = pending;
    // An earlier command was answered, and may have left something on the server.
    const isRenamed = sent > 1 && error instanceof LockStoreError;
    outcome.reject(isRenamed ? renamedError(error, request.keys.join(', '), true) : error);
  }

  /** Internal: a reply came after the time of its command was up. */
  onLate(pending: PendingAcquire, reply: readonly string[]): void {
    if (!isTooLate(reply)) pending.outcome.onLate(this.#read(pending, reply));
  }

  #forget(pending: PendingAcquire): void {
    const { attempt } = pending.request;
    if (this.#pending.get(attempt) === pending) this.#pending.delete(attempt);
  }

  #confirm(pending: PendingAcquire, replicas: ReplicaAcks, call: ScriptCall): void {
    this.#forget(pending);
    this.#confirmed(pending, replicas, call).then(
      (answer) => pending.outcome.resolve(answer),
      (error: unknown) => pending.outcome.reject(error),
    );
  }

  /** Waits until replicas have a grant; otherwise gives it back. */
  async #confirmed(pending: PendingAcquire, replicas: ReplicaAcks, call: ScriptCall): Promise<AcquireReply> {
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
  #read({ request, epoch }: PendingAcquire, reply: readonly string[]): AcquireReply {
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
    const client = commands.liveClient() as SingleClient;
    const key = keys.join(', ');
    const ask = (): Promise<number> => commands.send(client, () => client.time(), { subject: key, timeoutMs });
    return this.#serverClock.learn(ONLY_SERVER, timeoutMs, ask).catch((error: unknown) => {
      throw error instanceof LockStoreError ? renamedError(error, key, false) : error;
    });
  }

  /** The server of a lock, as far as it is known. */
  #serverOf(storageKey: string): string {
    const { commands } = this.parts;
    const client = commands.isCluster && commands.liveClient();
    const address = client && client.isCluster && client.masterAddressOf(storageKey);
    return address ? addressText(address) : ONLY_SERVER;
  }
}
