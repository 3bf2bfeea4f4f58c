import { type Clock } from '../../core/clock.js';
import { LockStoreError } from '../../core/lock.errors.js';
import { printable } from '../../core/printable.js';
import { releasesOfAttempt } from '../../core/store/attempt-ids.js';
import { type AcquireReply, type AcquireRequest, type LockStore } from '../../core/store/lock-store.js';
import { acquireCall, type SharedOperands } from '../codec/script-calls.js';
import { serverOf } from '../connection/cluster-slots.js';
import { type CommandRunner, type ScriptCall } from '../connection/command-runner.js';
import { isCluster } from '../connection/redis-client.js';
import { isUnservedAcquire } from '../queue-serving.js';
import { type ReplicaAcks } from './replica-acks.js';
import { type LockScripts } from '../scripts/lock-scripts.js';
import { ServerClock } from './server-clock.js';
import { readAcquireReply } from '../codec/store-replies.js';

/** How often one acquire may be sent in a row, while the server says that it came too late, or that it has more to do. */
const MAX_SENT = 64;

/** What an acquirer works with. */
export interface AcquirerParts {
  readonly commands: CommandRunner;
  readonly scripts: LockScripts;
  readonly clock: Clock;
  readonly replicas: ReplicaAcks | null;
  readonly storageKey: (key: string) => string;
  readonly shared: () => SharedOperands;
  readonly release: LockStore['release'];
  /** A call waits; the command whose reply said so was sent at `sentAt`, and its server knows a listener of ours, or not. */
  readonly onWaiting: (isListenedTo: boolean, sentAt: number) => void;
}

/** An acquire that is not answered yet. */
interface Pending {
  /** Withdraws its command, if that was not sent. */
  withdraw: () => boolean;
}

/** What was sent last, and its reply. */
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
    const key = request.keys.join(', ');
    const read = (reply: readonly string[]): AcquireReply => {
      const answer = readAcquireReply(key, request.keys.length > 1, reply);
      // The client may have sent it twice: the reply is that of the second copy, and the first may still arrive.
      const mayComeAgain = commands.epoch !== epoch && (answer.outcome === 'granted' || answer.outcome === 'busy');
      const told = mayComeAgain ? { ...answer, unanswered: true } : answer;
      return told.outcome === 'busy' ? { ...told, server: commands.serverId ?? undefined } : told;
    };
    const { call, reply } = await this.#askFor(request, timeoutMs, (late) => onLate(read(late)));
    if (!replicas || reply[0] !== 'granted') return read(reply);
    try {
      const confirmed = await replicas.confirm(call);
      if (isTooLate(confirmed))
        throw new LockStoreError(`The lock "${key}" ended before replicas confirmed it.`, { key });
      return read(confirmed);
    } catch (cause) {
      if (!(cause instanceof LockStoreError)) throw cause;
      const releases = releasesOfAttempt({ ...request, unanswered: true });
      await Promise.allSettled(releases.map((release) => this.parts.release(release, timeoutMs)));
      return { outcome: 'given-back', cause };
    }
  }

  /** Asks, and may be withdrawn until the first command is sent. */
  async #askFor(request: AcquireRequest, timeoutMs: number, onLate: (reply: string[]) => void): Promise<Answered> {
    let isWithdrawn = false;
    const pending: Pending = { withdraw: () => (isWithdrawn = true) };
    this.#pending.set(request.attempt, pending);
    try {
      const server = await this.#serverOf(request, timeoutMs);
      if (isWithdrawn) throw new LockStoreError('It was withdrawn before it was sent.', { wasSent: false });
      pending.withdraw = () => false;
      return await this.#ask(request, server, { timeoutMs, pending }, onLate);
    } finally {
      if (this.#pending.get(request.attempt) === pending) this.#pending.delete(request.attempt);
    }
  }

  /** Asks again at once, as the same attempt, while the server did not get to an outcome. */
  async #ask(
    request: AcquireRequest,
    server: string,
    { timeoutMs, pending }: { readonly timeoutMs: number; readonly pending: Pending },
    onLate: (reply: string[]) => void,
  ): Promise<Answered> {
    const { clock, commands } = this.parts;
    const until = clock.now() + timeoutMs;
    for (let sent = 1; ; sent += 1) {
      const sentAt = clock.now();
      const call = this.#callOf(request, server, timeoutMs);
      const onUnderWay = (withdraw: () => boolean): void => void (pending.withdraw = withdraw);
      const first = sent === 1 ? { onUnderWay } : {};
      const running = commands.run({ ...call, ...first, onLate: (late) => !isTooLate(late) && onLate(late) });
      // One that was answered before has left something.
      const reply = await running.catch((error: unknown) => {
        throw sent === 1 ? error : retold(error, true);
      });
      pending.withdraw = () => false;
      if (reply[0] === 'busy' && request.waiterLeaseMs > 0) this.parts.onWaiting(reply[7] !== '0', sentAt);
      this.#serverClock.read(server, isTooLate(reply) ? Number(reply[4]) : Number(reply[2]) * 1_000);
      if (!isTooLate(reply) && !isUnservedAcquire(reply)) return { call, reply };
      if (sent < MAX_SENT && clock.now() < until) continue;
      if (!isTooLate(reply)) return { call, reply };
      const text = `Redis took every command for the lock "${call.key}" for one that came too late. Does its clock jump?`;
      throw new LockStoreError(text, { key: call.key });
    }
  }

  /**
   * The server of a request, whose time is known if there is only one.
   * @throws LockStoreError when it cannot be asked: nothing was sent
   */
  async #serverOf({ keys }: AcquireRequest, timeoutMs: number): Promise<string> {
    const { commands } = this.parts;
    const storageKey = this.parts.storageKey(keys[0]!);
    const client = commands.liveClient(storageKey);
    const server = serverOf(client, storageKey);
    // Each node of a cluster refuses the first acquire, which has no time, and tells its own: one that serves is known then.
    if (isCluster(client)) return server;
    try {
      await this.#serverClock.learn(server, () =>
        commands.ask(client, () => client.time(), { key: keys.join(', '), timeoutMs }),
      );
    } catch (error) {
      throw retold(error, false, keys.join(', '));
    }
    return server;
  }

  #callOf(request: AcquireRequest, server: string, timeoutMs: number): ScriptCall {
    const { scripts, clock, storageKey, shared } = this.parts;
    const sentMicros = this.#serverClock.micros(server);
    const sending = { now: clock.now(), sentMicros, maxAgeMs: 2 * timeoutMs };
    const script = acquireCall(scripts, request, shared(), storageKey, sending);
    return { ...script, key: request.keys.join(', '), timeoutMs, echo: request.attempt };
  }
}

/** The same failure, of an acquire that was sent, or was not, for this key: it may have met another call, who asked for both. */
function retold(error: unknown, wasSent: boolean, key?: string): unknown {
  if (!(error instanceof LockStoreError)) return error;
  const { message, cause, retryable } = error;
  const [before, now] = [error.key ?? '', key ?? error.key ?? ''].map((one) => `"${printable(one)}"`) as [
    string,
    string,
  ];
  return new LockStoreError(
    message.replace(before, () => now),
    { key: key ?? error.key, cause, retryable, wasSent },
  );
}

/** Refused, since it was sent too long ago, or at a time that the server does not know. */
const isTooLate = ([outcome, , , reason]: readonly string[]): boolean => outcome === 'refused' && reason === 'late';
