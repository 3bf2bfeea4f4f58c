import { type Clock } from '../../core/clock.js';
import { LockStoreError } from '../../core/lock.errors.js';
import { printable } from '../../core/printable.js';
import { releasesOfAttempt } from '../../core/store/attempt-ids.js';
import { type AcquireReply, type AcquireRequest, type LockStore } from '../../core/store/lock-store.js';
import { addressText } from '../client/server-address.js';
import { type RedisKeys } from '../codec/redis-keys.js';
import { type ScriptCalls } from '../codec/script-calls.js';
import {
  isListenedTo,
  isTooLate,
  isUnservedAcquire,
  readAcquireReply,
  serverMicrosIn,
} from '../codec/store-replies.js';
import { type CommandRunner, type ScriptCall } from '../connection/command-runner.js';
import { MAX_SENT, maxAcquireAgeMs } from '../timing.js';
import { type ReplicaAcks } from './replica-acks.js';
import { ServerClock } from './server-clock.js';

/** The name of the server of a client that is not one of a cluster. */
const ONLY_SERVER = '';

/** What an acquirer works with. */
interface AcquirerParts {
  readonly commands: CommandRunner;
  readonly calls: ScriptCalls;
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

/** The command that was sent last, and its reply. */
interface Answered {
  readonly call: ScriptCall;
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
    if (!replicas || reply[0] !== 'granted') return read(reply);
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

  /** Sends an acquire that may be withdrawn until its first command is sent. */
  async #send(request: AcquireRequest, timeoutMs: number, onLate: (reply: string[]) => void): Promise<Answered> {
    let isWithdrawn = false;
    const pending: Pending = { withdraw: () => (isWithdrawn = true) };
    this.#pending.set(request.attempt, pending);
    try {
      const server = await this.#serverOf(request, timeoutMs);
      if (isWithdrawn) throw new LockStoreError('It was withdrawn before it was sent.', { wasSent: false });
      pending.withdraw = () => false;
      return await this.#untilDecided(request, { server, timeoutMs, pending }, onLate);
    } finally {
      if (this.#pending.get(request.attempt) === pending) this.#pending.delete(request.attempt);
    }
  }

  /** Sends it again at once, as the same attempt, while the server has not come to an outcome. */
  async #untilDecided(
    request: AcquireRequest,
    sending: { readonly server: string; readonly timeoutMs: number; readonly pending: Pending },
    onLate: (reply: string[]) => void,
  ): Promise<Answered> {
    const { server, timeoutMs, pending } = sending;
    const { clock, commands } = this.parts;
    const until = clock.now() + timeoutMs;
    for (let sent = 1; ; sent += 1) {
      const sentAt = clock.now();
      const call = this.#callOf(request, server, timeoutMs);
      const onStart = (withdraw: () => boolean): void => void (pending.withdraw = withdraw);
      const first = sent === 1 ? { onStart } : {};
      const running = commands.run({ ...call, ...first, onLate: (late) => !isTooLate(late) && onLate(late) });
      // An earlier command was answered, and may have left something on the server.
      const reply = await running.catch((error: unknown) => {
        throw sent === 1 ? error : asFailureOf(error, true);
      });
      pending.withdraw = () => false;
      if (reply[0] === 'busy' && request.waiterLeaseMs > 0) this.parts.onWaiting(isListenedTo(reply), sentAt);
      this.#serverClock.onReply(server, serverMicrosIn(reply));
      if (!isTooLate(reply) && !isUnservedAcquire(reply)) return { call, reply };
      if (sent < MAX_SENT && clock.now() < until) continue;
      if (!isTooLate(reply)) return { call, reply };
      const text = `Redis refused every command for the lock "${call.key}" as too late. Does its clock jump?`;
      throw new LockStoreError(text, { key: call.key });
    }
  }

  /**
   * Returns the server of a request, once its time is known; for a node of a cluster, at once.
   * @throws LockStoreError when the server does not answer: nothing was sent
   */
  async #serverOf({ keys }: AcquireRequest, timeoutMs: number): Promise<string> {
    const { commands } = this.parts;
    const storageKey = this.parts.keys.storageKey(keys[0]!);
    const client = commands.liveClient(storageKey);
    if (client.isCluster) {
      // Only a reply tells which node serves: it refuses the first acquire, which names no time, and reports its own.
      const address = client.masterAddressOf(storageKey);
      return address ? addressText(address) : ONLY_SERVER;
    }
    const key = keys.join(', ');
    try {
      await this.#serverClock.learn(ONLY_SERVER, () => commands.send(client, () => client.time(), { key, timeoutMs }));
    } catch (error) {
      throw asFailureOf(error, false, key);
    }
    return ONLY_SERVER;
  }

  #callOf(request: AcquireRequest, server: string, timeoutMs: number): ScriptCall {
    const sentMicros = this.#serverClock.micros(server);
    const untilMicros = sentMicros && sentMicros + Math.round(maxAcquireAgeMs(timeoutMs) * 1_000);
    const times = { now: this.parts.clock.now(), sentMicros, untilMicros };
    return this.parts.calls.acquire(request, timeoutMs, times);
  }
}

/** The same failure for an acquire of `key`: several calls share one question, and its error names the key of one of them. */
function asFailureOf(error: unknown, wasSent: boolean, key?: string): unknown {
  if (!(error instanceof LockStoreError)) return error;
  const { message, cause, retryable } = error;
  const own = key ?? error.key;
  const [named, wanted] = [quoted(error.key), quoted(own)];
  return new LockStoreError(
    message.replace(named, () => wanted),
    { key: own, cause, retryable, wasSent },
  );
}

const quoted = (key: string | undefined): string => `"${printable(key ?? '')}"`;
