import { type Clock, wasHeldUp } from '../../core/clock.js';
import { LockStoreError } from '../../core/lock.errors.js';
import { type Subject, forSubject, keyOfSubject } from '../../core/store/subject.js';
import { type ScheduledCall, type TimerQueue } from '../../core/timer-queue.js';
import { READ_MS } from '../../core/timing.js';
import { type RedisClient } from '../client/cluster.js';
import { type Operands, type SingleClient } from '../client/redis-client.js';
import { type LuaScript } from '../scripts/lock-scripts.js';
import { MAX_CONNECTION_LOSSES } from '../timing.js';
import { isLost, isNoScript, isRetryable, isUnsent, renamedError } from './redis-errors.js';

/** Where a command goes: to this node of a cluster, or to the one that serves the storage key. */
export interface Destination {
  readonly storageKey?: string | undefined;
  readonly node?: SingleClient | undefined;
}

/** The connection to a node with which a cluster client sends a command, as far as it knows. */
export function nodeOf(client: RedisClient, { storageKey, node }: Destination): SingleClient | undefined {
  return node ?? (client.isCluster && storageKey !== undefined ? client.masterOf(storageKey) : undefined);
}

/** The purpose and target of a command, and its deadline. */
export interface CommandRequest {
  /** For error texts. */
  readonly subject: Subject;
  /** The storage key of the command, or none. */
  readonly storageKey?: string | undefined;
  /** The connection to a node of a cluster, if not to the one that serves the key. */
  readonly node?: SingleClient | undefined;
  readonly timeoutMs: number;
}

/** A script with its operands. */
export interface Script {
  readonly script: LuaScript;
  readonly operands: Operands;
  /** Whether to send ASKING first: a node to which the slot is moving serves no other command. */
  readonly asking?: boolean;
}

/** One script for one attempt, and the expected form of its reply. */
export interface ScriptCall extends Script {
  /** For error texts. */
  readonly key: string;
  readonly timeoutMs: number;
  /** The required second element of the reply; undefined: anything. Any other reply belongs to another command. */
  readonly echo?: string | undefined;
}

/** The connection of a command. */
export interface CommandHost {
  readonly clock: Clock;
  readonly timers: TimerQueue;
  /** How many connections have ended, or failed to begin. */
  readonly losses: number;
  /** Changes after a connection was lost. */
  readonly epoch: number;
  readonly isClosed: boolean;
  /** Whether the client has ended, and stays closed. */
  readonly hasEnded: boolean;
  liveClient(): RedisClient;
  /** Calls back once, when it has changed whether commands can be sent; returns a function that cancels. */
  onceChanged(callback: () => void): () => void;
  /** Why there is no connection for a command. */
  lastErrorOf(to: Destination): Error | undefined;
  /** Whether a command is sent at once. */
  isReady(to: Destination): boolean;
  /** Why no lock may be granted by the server for this key. */
  refusal(key: string): LockStoreError | null;
  /** A command that was sent at `sentAt` was answered, or has no answer in time. */
  onAnswer(to: Destination, sentAt: number): void;
  onTimeout(to: Destination, sentAt: number, timeoutMs: number): void;
  /** Replaces a connection that returns the replies of other commands. */
  replace(to: Destination): void;
  onStart(command: Command): void;
  /** A command was answered, or has failed. */
  onEnd(command: Command): void;
  /** The error for its caller. */
  failureOf(command: Command, error: Error): LockStoreError;
}

export const withdrawnError = (): Error => new Error('it was withdrawn before it was sent');

const ignore = (): void => undefined;

/**
 * One command, from the wait for a connection to its answer, with its own deadline: a library may leave a promise pending
 * forever. It is sent only while connected, so it is never sent later. It is sent again, within its time, if its
 * connection was lost before the answer. A script that is unknown to the server is sent once more as text.
 */
export abstract class Command implements CommandRequest {
  readonly subject: Subject;
  readonly storageKey: string | undefined;
  readonly node: SingleClient | undefined;
  readonly timeoutMs: number;
  wasSent = false;
  /** Whether a copy whose answer was lost may have been executed. */
  protected mayHaveRun = false;
  /** Where the answer comes from: in a cluster, the node that serves the storage key. */
  sentTo: Destination | null = null;
  /** When it was last sent, on the monotonic clock. */
  #sentAt = 0;
  #byText = false;
  #isOver = false;
  /** Whether it ended because of its deadline. */
  #isLate = false;
  /** How many connections had been lost when it began to wait for one. */
  #lossesBefore: number;
  #deadline: ScheduledCall;
  #stopWaiting = ignore;

  constructor(
    private readonly host: CommandHost,
    { subject, storageKey, node, timeoutMs }: CommandRequest,
  ) {
    this.subject = subject;
    this.storageKey = storageKey;
    this.node = node;
    this.timeoutMs = timeoutMs;
    const now = host.timers.now();
    const due = now + Math.max(timeoutMs, 0);
    this.#deadline = host.timers.schedule(due, () => this.#onDeadline(due), now);
    this.#lossesBefore = host.losses;
    host.onStart(this);
  }

  /** What it sends each time: a script, whose answers are strings or lists of them, or another command, with its reply. */
  protected abstract make(client: RedisClient): Script | Promise<unknown>;
  /** The answers in a reply; null: it is the reply to another command. */
  protected abstract read(reply: unknown): unknown[] | null;
  /** Receives the outcome, as `reject` does: one of the two, once. */
  protected abstract resolve(answers: unknown[]): void;
  protected abstract reject(error: LockStoreError): void;
  /** Receives answers that come after the time limit. */
  protected onLate?(answers: unknown[]): void;

  /** Sends it as soon as there is a connection, and again if that is lost before the answer, until the command is over. */
  start(): void {
    const { host } = this;
    try {
      const to = this.#readyDestination();
      if (!to) return this.#whenChanged(() => this.start());
      this.#lossesBefore = host.losses;
      const { epoch } = host;
      const { wasSent } = this;
      const sentAt = host.clock.now();
      this.wasSent = true;
      this.sentTo = to;
      this.#sentAt = sentAt;
      this.#send(host.liveClient()).then(
        (reply) => this.#onReply(reply, to, sentAt),
        (error: Error) => {
          if (isUnsent(error)) this.wasSent = wasSent;
          this.#onError(error, epoch);
        },
      );
    } catch (error) {
      this.fail(error as Error);
    }
  }

  /** Ends the wait for the answer. */
  fail(error: Error): void {
    if (this.#isOver) return;
    this.#end();
    this.reject(this.host.failureOf(this, error));
  }

  #end(): void {
    this.#isOver = true;
    this.#deadline.cancel();
    this.#stopWaiting();
    this.host.onEnd(this);
  }

  /** Like `setDeadline`, but without its closures: nearly all commands are answered long before. */
  #onDeadline(due: number): void {
    const { timers } = this.host;
    if (!wasHeldUp(timers, due)) return this.#onTimeout();
    this.#deadline = timers.schedule(timers.now() + READ_MS, () => this.#onTimeout());
  }

  #onTimeout(): void {
    const { timeoutMs } = this;
    this.#isLate = true;
    if (this.sentTo) this.host.onTimeout(this.sentTo, this.#sentAt, timeoutMs);
    this.fail(new Error(`no ${this.sentTo ? 'answer' : 'connection'} within ${Math.round(timeoutMs)} ms`));
  }

  /** EVALSHA, or EVAL. A client may also throw. */
  #send(client: RedisClient): Promise<unknown> {
    try {
      const made = this.make(client);
      if (!('script' in made)) return made;
      const { script, operands, asking } = made;
      if (asking) (client as SingleClient).asking();
      return this.#byText ? client.evaluate(script.text, operands) : client.evaluateSha(script.sha1, operands);
    } catch (error) {
      return Promise.reject(error);
    }
  }

  #onReply(reply: unknown, to: Destination, sentAt: number): void {
    try {
      this.host.onAnswer(to, sentAt);
      const answers = this.#read(reply, to);
      if (this.#isLate) return this.onLate?.(answers);
      if (this.#isOver) return;
      this.#end();
      this.resolve(answers);
    } catch (error) {
      this.fail(error as Error);
    }
  }

  /** @throws LockStoreError when a connection delivers the reply to another command: the connection is replaced */
  #read(reply: unknown, to: Destination): unknown[] {
    const { subject } = this;
    const answers = this.read(reply);
    if (!answers) {
      this.host.replace(to);
      const text = `Redis sent the reply of another command ${forSubject(subject)}.`;
      throw new LockStoreError(text, { key: keyOfSubject(subject) });
    }
    if (!answers.some(isGrant)) return answers;
    // The server may have become unsafe since its connection began.
    const key = keyOfSubject(subject) ?? '';
    const refusal = this.host.refusal(key);
    if (refusal) throw renamedError(refusal, key, true);
    return answers;
  }

  /** `epoch`: that of the connection when the command was sent. */
  #onError(error: Error, epoch: number): void {
    const { host } = this;
    if (isLost(error) && !this.#isOver) {
      this.sentTo = null;
      this.mayHaveRun ||= !isUnsent(error);
      if (host.epoch !== epoch || !host.isReady(this)) return this.start();
      // Without a loss, it would be resent repeatedly without a pause. A node has redirected it to one that is not ready.
      return isUnsent(error) ? this.#whenChanged(() => this.start()) : this.fail(error);
    }
    if (this.#isOver || this.#byText || !isNoScript(error)) return this.fail(error);
    this.#byText = true;
    this.#lossesBefore = host.losses;
    this.start();
  }

  /** Returns null while waiting may help. @throws Error when it cannot */
  #readyDestination(): Destination | null {
    const { host, storageKey } = this;
    if (this.#isOver || host.isClosed) throw new Error('the connection was closed');
    const to = { node: nodeOf(host.liveClient(), this), storageKey };
    if (host.isReady(to)) return to;
    const lastError = host.lastErrorOf(to);
    if (lastError && !isRetryable(lastError)) throw lastError;
    if (host.hasEnded || host.losses - this.#lossesBefore >= MAX_CONNECTION_LOSSES) {
      throw lastError ?? new Error('the connection was lost');
    }
    return null;
  }

  /** Calls back after the next change of the connection has been completed. */
  #whenChanged(callback: () => void): void {
    const changed = new Promise<void>((resolve) => {
      const stop = this.host.onceChanged(resolve);
      this.#stopWaiting = () => {
        stop();
        resolve();
      };
    });
    void changed.then(callback);
  }
}

/** The reply of a script that has granted or extended a hold. */
const GRANTED = new Set<unknown>(['granted', 'renewed', 'adopted']);

/** Whether a lease depends on the answer. */
const isGrant = (answer: unknown): boolean => Array.isArray(answer) && GRANTED.has(answer[0]);

/** A command with one answer. */
export class SingleCommand<T> extends Command {
  constructor(
    host: CommandHost,
    request: CommandRequest,
    protected readonly make: (client: RedisClient) => Script | Promise<unknown>,
    protected readonly read: (reply: unknown) => [T] | null,
    private readonly onAnswer: (answer: T) => void,
    protected readonly reject: (error: LockStoreError) => void,
  ) {
    super(host, request);
  }

  protected resolve([answer]: [T]): void {
    this.onAnswer(answer);
  }
}

/**
 * Reads the reply for one attempt, a list or a text (scripts/operate.lua); null if it belongs to another command, or does not come
 * from a script of this library.
 */
export function readReply(echo: string | undefined, reply: unknown): string[] | null {
  if (typeof reply === 'string') {
    const parts = reply.split(' ');
    return echo !== undefined && parts[1] === echo ? parts : null;
  }
  if (!Array.isArray(reply) || !reply.every(isPlain)) return null;
  const parts = reply.map(String);
  return echo === undefined || parts[1] === echo ? parts : null;
}

/** No script replies with a list in the reply for a lock. */
const isPlain = (part: unknown): boolean => typeof part === 'string' || typeof part === 'number';
