import { type Clock } from '../core/clock.js';
import { FreshMap } from '../core/fresh-map.js';
import { LockStoreError } from '../core/lock.errors.js';
import { releasesOfAttempt } from '../core/store/attempt-ids.js';
import { type AcquireReply, type AcquireRequest, type LockStore } from '../core/store/lock-store.js';
import { type Batch, type Batcher, type Pending } from './batcher.js';
import { type SingleClient } from './client/redis-client.js';
import { addressText } from './client/server-address.js';
import { type AcquireTimes, type Operation, type ScriptCalls } from './codec/script-calls.js';
import { isListenedTo, isTooLate, readAcquireReply, serverMicrosIn } from './codec/replies.js';
import { type Connection } from './connection/connection.js';
import { renamedError } from './connection/redis-errors.js';
import { type ReplicaAcks } from './replica-acks.js';
import { CLOCK_DRIFT, MAX_SENT, maxAcquireAgeMs } from './timing.js';

/** The collaborators of an `Acquirer`. */
interface AcquirerParts {
  readonly commands: Connection;
  readonly calls: ScriptCalls;
  readonly batcher: Batcher;
  readonly clock: Clock;
  readonly replicas: ReplicaAcks | null;
  readonly release: LockStore['release'];
  /** A command sent at `sentAt` has put a call in the queue; `isHeard`: its server has the subscriber of this process. */
  readonly onWaiting: (isHeard: boolean, sentAt: number) => void;
}

type OnLate = (reply: AcquireReply) => void;

/** The name of the server of a client that is not one of a cluster. */
const ONLY_SERVER = '';

/** Sends acquires to Redis until there is an outcome: granted, busy or refused. */
export class Acquirer {
  readonly #underWay = new FreshMap<string, Acquire>();
  readonly #serverClock: ServerClock;

  constructor(readonly parts: AcquirerParts) {
    this.#serverClock = new ServerClock(parts.clock);
  }

  /** As `LockStore.acquire`. */
  acquire(request: AcquireRequest, timeoutMs: number, onLate: OnLate): Promise<AcquireReply> {
    return new Promise((resolve, reject) => {
      const { calls, clock } = this.parts;
      const now = clock.now();
      const operation = calls.acquire(request, timeoutMs, now);
      const acquire = new Acquire(this, request, operation, now, resolve, reject, onLate);
      this.#underWay.set(request.attempt, acquire);
      const question = this.#learnTime(operation);
      if (!question) return acquire.send();
      question.then(
        () => acquire.send(),
        (error: unknown) => acquire.reject(this.parts.commands.refusal(operation.key) ?? error),
      );
    });
  }

  /** As `LockStore.withdraw`. */
  withdraw(attempt: string): boolean {
    return this.#underWay.get(attempt)?.withdraw() ?? false;
  }

  /** The send time of an acquire that is sent now, and the time until which it may arrive. */
  timesOf({ lock, timeoutMs }: Operation): AcquireTimes {
    const sentMicros = this.#serverClock.micros(this.#serverOf(lock));
    return { sentMicros, untilMicros: sentMicros && sentMicros + Math.round(maxAcquireAgeMs(timeoutMs) * 1_000) };
  }

  /** Internal: the server of an acquire has replied. */
  onReply({ operation }: Acquire, reply: readonly string[]): void {
    this.#serverClock.onReply(this.#serverOf(operation.lock), serverMicrosIn(reply));
  }

  /** Internal: an acquire has its outcome. */
  onEnd(acquire: Acquire): void {
    const { attempt } = acquire.request;
    if (this.#underWay.get(attempt) === acquire) this.#underWay.delete(attempt);
  }

  /**
   * Learns the time of the server, unless it is known. In a cluster, only a reply shows which node serves: the node refuses the first
   * acquire, which names no time, and reports its own time.
   */
  #learnTime({ key, timeoutMs }: Operation): Promise<void> | null {
    const { commands } = this.parts;
    if (commands.isCluster || this.#serverClock.micros(ONLY_SERVER) > 0) return null;
    const client = commands.liveClient() as SingleClient;
    const ask = (): Promise<number> => commands.send(() => client.time(), { subject: key, timeoutMs });
    return this.#serverClock.learn(ONLY_SERVER, timeoutMs, ask).catch((error: unknown) => {
      throw error instanceof LockStoreError ? renamedError(error, key, false) : error;
    });
  }

  /** The server of a lock, if known. */
  #serverOf(storageKey: string): string {
    const client = this.parts.commands.liveClient();
    const address = client.isCluster ? client.masterAddressOf(storageKey) : undefined;
    return address ? addressText(address) : ONLY_SERVER;
  }
}

/** One acquire, from its request to its outcome. It has one command in flight at a time. */
class Acquire implements Pending {
  /** An acquire of several locks, or one that replicas have to confirm, has its own command. */
  readonly isAlone: boolean;
  batch: Batch | null = null;
  /** The number of times it was sent. */
  #sent = 0;
  /** Until when it is sent again. */
  readonly #until: number;
  /** The epoch of the connection when it began. */
  readonly #epoch: number;
  #isWithdrawn = false;

  constructor(
    private readonly acquirer: Acquirer,
    readonly request: AcquireRequest,
    public operation: Operation,
    /** When it was last sent, on the monotonic clock. */
    private sentAt: number,
    private readonly onOutcome: (reply: AcquireReply) => void,
    private readonly onError: (error: unknown) => void,
    private readonly onLateReply: OnLate,
  ) {
    const { commands, replicas } = acquirer.parts;
    this.isAlone = replicas !== null || request.keys.length > 1;
    this.#until = sentAt + operation.timeoutMs;
    this.#epoch = commands.epoch;
  }

  /** Sends it, unless it was withdrawn before, or its server is known to be unsafe. */
  send(): void {
    const { commands, batcher } = this.acquirer.parts;
    if (this.#isWithdrawn) {
      return this.reject(new LockStoreError('It was withdrawn before it was sent.', { wasSent: false }));
    }
    const refusal = commands.refusal(this.operation.key);
    if (refusal) return this.reject(refusal);
    this.#sent += 1;
    batcher.add(this);
  }

  withdraw(): boolean {
    if (this.#sent > 1) return false;
    // It is waiting for the time of the server.
    if (this.#sent === 0) return (this.#isWithdrawn = true);
    return this.acquirer.parts.batcher.withdraw(this);
  }

  /** Sends it again at once, as the same attempt, while the server reports no outcome. */
  resolve(reply: string[]): void {
    const { request, acquirer } = this;
    const { replicas, onWaiting } = acquirer.parts;
    if (reply[0] === 'busy' && request.waiterLeaseMs > 0) onWaiting(isListenedTo(reply), this.sentAt);
    acquirer.onReply(this, reply);
    if (isTooLate(reply)) return this.#sendAgain();
    if (replicas && reply[0] === 'granted') return this.#confirm(replicas);
    const answer = this.#read(reply);
    acquirer.onEnd(this);
    this.onOutcome(answer);
  }

  reject(error: unknown): void {
    this.acquirer.onEnd(this);
    // An earlier command was answered, and may have left a trace on the server.
    const wasAnswered = this.#sent > 1 && error instanceof LockStoreError;
    this.onError(wasAnswered ? renamedError(error, this.operation.key, true) : error);
  }

  onLate(reply: string[]): void {
    if (!isTooLate(reply)) this.onLateReply(this.#read(reply));
  }

  #sendAgain(): void {
    const { clock, calls } = this.acquirer.parts;
    const { key, timeoutMs } = this.operation;
    const now = clock.now();
    if (this.#sent >= MAX_SENT || now >= this.#until) {
      const text = `Redis refused every command for the lock "${key}" as too late. Does its clock jump?`;
      throw new LockStoreError(text, { key });
    }
    this.sentAt = now;
    this.operation = calls.acquire(this.request, timeoutMs, now);
    this.send();
  }

  #confirm(replicas: ReplicaAcks): void {
    this.acquirer.onEnd(this);
    this.#confirmed(replicas).then(this.onOutcome, this.onError);
  }

  /** Waits until replicas have a grant; otherwise gives it back. */
  async #confirmed(replicas: ReplicaAcks): Promise<AcquireReply> {
    const { request, operation, batch } = this;
    const { key, attempt, timeoutMs } = operation;
    try {
      const confirmed = await replicas.confirm({ ...batch!.sent!, key, timeoutMs, echo: attempt });
      if (!isTooLate(confirmed)) return this.#read(confirmed);
      throw new LockStoreError(`The lock "${key}" ended before replicas confirmed it.`, { key });
    } catch (cause) {
      if (!(cause instanceof LockStoreError)) throw cause;
      const releases = releasesOfAttempt({ ...request, unanswered: true });
      const sent = releases.map((release) => this.acquirer.parts.release(release, timeoutMs));
      const isConfirmed = (await Promise.allSettled(sent)).every(({ status }) => status === 'fulfilled');
      return { outcome: 'given-back', cause, ...(isConfirmed ? null : { unanswered: true }) };
    }
  }

  /** If a connection was lost meanwhile, the reply may be that of a second copy, and the first copy may still arrive. */
  #read(reply: readonly string[]): AcquireReply {
    const { commands } = this.acquirer.parts;
    const answer = readAcquireReply(this.request, reply);
    const unanswered = commands.epoch === this.#epoch ? null : { unanswered: true };
    if (answer.outcome === 'busy') return { ...answer, ...unanswered, server: commands.serverId ?? undefined };
    return unanswered ? { ...answer, ...unanswered } : answer;
  }
}

/**
 * The clocks of the servers, as far as known from their replies. An acquire names the time at which it was sent by the clock of its
 * server, so that a copy that arrives much later is refused.
 */
class ServerClock {
  /** Per server, its time in microseconds, and when that arrived on the monotonic clock. */
  readonly #readings = new Map<string, { readonly micros: number; readonly at: number }>();
  /** The pending requests for the time, by time limit and server. */
  readonly #questions = new Map<string, Promise<void>>();

  constructor(private readonly clock: Clock) {}

  /** Asks the server for its time in microseconds; simultaneous calls with one time limit share one request. */
  async learn(server: string, timeoutMs: number, ask: () => Promise<number>): Promise<void> {
    const name = `${timeoutMs} ${server}`;
    const answered = async (): Promise<void> => this.onReply(server, await ask());
    const question = this.#questions.get(name) ?? answered().finally(() => this.#questions.delete(name));
    this.#questions.set(name, question);
    await question;
  }

  /** A reply of this server contained its time, in microseconds. */
  onReply(server: string, micros: number): void {
    if (Number.isSafeInteger(micros)) this.#readings.set(server, { micros, at: this.clock.now() });
  }

  /** The latest time of the server that has certainly passed by now, in microseconds; 0: unknown. */
  micros(server: string): number {
    const reading = this.#readings.get(server);
    if (!reading) return 0;
    return reading.micros + Math.floor((this.clock.now() - reading.at) * 1_000 * (1 - CLOCK_DRIFT));
  }
}
