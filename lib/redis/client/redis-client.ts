import { EventEmitter } from 'node:events';
import { type Clock, setDeadline } from '../../core/clock.js';
import { type Randomness } from '../../core/randomness.js';
import { type Reporter } from '../../core/reporter.js';
import { NEVER_READY } from '../connection/error-advice.js';
import { withoutSecrets } from '../connection/redis-errors.js';
import { CLOSE_TIMEOUT_MS, GREETING_MS, reconnectDelayMs } from '../timing.js';
import { type ServerAddress } from './server-address.js';

/** What the clients of one store share. */
export interface ClientParts {
  readonly clock: Clock;
  readonly random: Randomness;
  readonly reporter: Reporter;
}

/**
 * `idle`: it connects when `connect` is called. `closed`: the connection was lost, and is opened again after a pause. `ended`:
 * only `connect` opens it again.
 */
export type ClientStatus = 'idle' | 'connecting' | 'connected' | 'ready' | 'closed' | 'ended';

/** The events of a client, with what their listeners receive. */
export interface ClientEvents {
  connecting: [];
  connected: [];
  ready: [];
  closed: [];
  ended: [];
  error: [error: Error];
  message: [channel: string, message: string];
}

/** The keys and arguments of a script, after the number of its keys. */
export type Operands = readonly (string | number)[];

/** Whether a connection leads to the server that was just announced as the master. */
export type LeadsToMaster = (client: SingleClient) => boolean;

/** Watches for a new master, until it is closed. */
export interface MasterWatch {
  close(): Promise<void>;
}

/**
 * One socket to one server by a client of a library, which connects at once and never reconnects: the libraries differ too much
 * in how they handle a lost connection, a silent server and the commands of both.
 */
export interface Session {
  readonly isWritable: boolean;
  /** The address by which it was opened; null for a Unix socket. */
  readonly peer: ServerAddress | null;
  /** Rejects with the errors of the port. What is not written when the session ends is never sent. */
  send(words: Operands): Promise<unknown>;
  subscribe(channel: string): Promise<unknown>;
  /** Ends at once, in any state; resolves when its socket has ended. */
  end(): Promise<unknown>;
  /** The socket, where the library writes each command by itself. */
  readonly stream?: { cork?(): void; uncork?(): void } | undefined;
}

/** Receives the events of a session; after `onOver`, all others are ignored. */
export interface SessionListener {
  onConnected(): void;
  onReady(): void;
  onMessage(channel: string, text: string): void;
  onOver(error?: Error): void;
}

/** The target of a connection. */
export interface Target {
  open(listener: SessionListener): Session;
  /** Behind Sentinel: a server that is a replica is reported, and the connection closed before it gets a command. */
  onReplica?(): void;
}

/** How a connection is opened, each time. */
export interface ConnectionPlan {
  /** For log texts: never contains a password. */
  readonly address: string;
  /** Whether it stays closed once it has ended. */
  readonly endsForGood: boolean;
  readonly connectTimeout: number;
  /** After this number of failed attempts in a row, it ends; without a number, never. */
  readonly maxFailures?: number;
  /** The current address: behind Sentinel, this needs a query. `signal`: the answer is no longer needed. */
  readonly target: Target | ((signal: AbortSignal) => Promise<Target>);
  /** `repeat` reports the present master again. */
  readonly watchMaster?: (onMaster: (leadsToMaster: LeadsToMaster) => void) => MasterWatch & { repeat(): void };
}

const ignore = (): void => undefined;

/** The answer, unless it takes longer. */
export async function inTime<T>(answer: Promise<T>, ms: number, clock: Clock): Promise<T> {
  let cancel = ignore;
  const late = new Promise<never>((_resolve, reject) => {
    cancel = setDeadline(clock, () => reject(new Error('no answer in time')), ms);
  });
  return Promise.race([answer, late]).finally(() => cancel());
}

/**
 * What a single connection and a cluster have in common: they reconnect until they are closed. Each client has one object, so that
 * clients can be compared.
 *
 * A command that the server refuses rejects with an error called `ReplyError`, whose text is that of the server from the code on
 * (`NOSCRIPT …`, `MOVED 7 host:port`); on a single connection, no client follows a redirection. A command that cannot be sent now, or
 * whose connection is lost, rejects at once with an error for which `isLost` (connection/redis-errors.ts) is true, and is never sent
 * later or twice. test/clients holds every library to this.
 */
export abstract class BaseClient {
  /** Why the last attempt to connect failed; undefined after a successful one. */
  lastError: Error | undefined;
  readonly #events = new EventEmitter().setMaxListeners(0);
  #status: ClientStatus = 'idle';
  #failures = 0;
  #cancelRetry = ignore;
  #closing: Promise<unknown> = Promise.resolve();

  constructor(protected readonly parts: ClientParts) {}

  /** Whether a command is sent at once; otherwise it is refused. */
  abstract readonly isWritable: boolean;
  /** Whether the connection stays closed after its end: another one replaces it. */
  abstract readonly endsForGood: boolean;
  protected abstract readonly streams: readonly Session['stream'][];

  /** Cuts the connection, and opens it again. */
  abstract reconnect(): void;
  /**
   * Opens another connection to subscribe with; null while a cluster has not discovered a node. It accepts other commands before it
   * subscribes. After a reconnect, it has no subscriptions.
   */
  abstract openSubscriber(): SingleClient | null;
  /** Behind Sentinel: calls back when another server is the master. Null where nothing reports that. */
  abstract watchMaster(onMaster: (leadsToMaster: LeadsToMaster) => void): MasterWatch | null;

  /** Opens it; the state is `connecting`. */
  protected abstract open(): void;
  /** Ends what is open, or is being opened, without a report; resolves when its sockets have ended. */
  protected abstract drop(): Promise<unknown>;
  protected abstract send(words: Operands): Promise<unknown>;

  get status(): ClientStatus {
    return this.#status;
  }

  protected get failures(): number {
    return this.#failures;
  }

  /** Returns a function that removes the listener. */
  on<E extends keyof ClientEvents>(event: E, listener: (...args: ClientEvents[E]) => void): () => void {
    this.#events.on(event, listener as (...args: unknown[]) => void);
    return () => void this.#events.off(event, listener as (...args: unknown[]) => void);
  }

  once(event: keyof ClientEvents, listener: () => void): () => void {
    const remove = this.on(event, () => {
      remove();
      listener();
    });
    return remove;
  }

  /** Rejects when the first attempt fails; the client continues trying. Each attempt has a deadline in every state. */
  connect(): Promise<void> {
    if (this.#status === 'ready') return Promise.resolve();
    const ready = new Promise<void>((resolve, reject) => {
      const settle = (settleBy: () => void): void => {
        for (const stop of stops) stop();
        settleBy();
      };
      const fail = (): void => settle(() => reject(this.lastError ?? lostError()));
      const stops = [this.on('ready', () => settle(resolve)), this.on('closed', fail), this.on('ended', fail)];
    });
    if (this.#status === 'idle' || this.#status === 'ended') this.begin();
    return ready;
  }

  /** Ends the connection at once. */
  disconnect(): void {
    if (this.#status === 'ended') return;
    const wasOpen = this.#status !== 'idle' && this.#status !== 'closed';
    this.#cancelRetry();
    this.#status = 'ended';
    this.#closing = this.drop();
    if (wasOpen) this.emit('closed');
    this.emit('ended');
  }

  /** Resolves when its sockets have ended, or after a short limit. */
  async close(): Promise<void> {
    this.disconnect();
    await inTime(this.#closing, CLOSE_TIMEOUT_MS, this.parts.clock).catch(ignore);
  }

  /** Sends the commands of `send` in one write to each server, where the library would make a write of each. */
  inOneWrite(send: () => void): void {
    const { streams } = this;
    for (const stream of streams) stream?.cork?.();
    try {
      send();
    } finally {
      for (const stream of streams) stream?.uncork?.();
    }
  }

  evaluateSha(sha1: string, operands: Operands): Promise<unknown> {
    return this.send(['evalsha', sha1, ...operands]);
  }

  evaluate(text: string, operands: Operands): Promise<unknown> {
    return this.send(['eval', text, ...operands]);
  }

  protected emit<E extends keyof ClientEvents>(event: E, ...args: ClientEvents[E]): void {
    // Without a listener, an emitter throws its errors.
    if (this.#events.listenerCount(event) > 0) this.#events.emit(event, ...args);
  }

  protected begin(): void {
    this.#cancelRetry();
    this.#status = 'connecting';
    this.emit('connecting');
    this.open();
  }

  protected become(status: 'connected' | 'ready'): void {
    this.#status = status;
    if (status === 'ready') {
      this.#failures = 0;
      this.lastError = undefined;
    }
    this.emit(status);
  }

  /** It is over; `isEnd`: for good. */
  protected lose(error: Error | undefined, isEnd = false): void {
    if (error) this.lastError = withoutSecrets(error);
    // A server that accepts connections and stays silent causes no error.
    else if (this.#status !== 'ready') this.lastError ??= new Error(NEVER_READY);
    this.#status = isEnd ? 'ended' : 'closed';
    if (error) this.emit('error', error);
    this.emit('closed');
    if (isEnd) this.emit('ended');
    else if (this.#status === 'closed') this.#retry();
  }

  #retry(): void {
    this.#failures += 1;
    const begin = (): void => void (this.#status === 'closed' && this.begin());
    this.#cancelRetry = this.parts.clock.setTimer(begin, reconnectDelayMs(this.#failures));
  }
}

/** One connection to one server: one session after the other. */
export class SingleClient extends BaseClient {
  readonly isCluster = false;
  #session: Session | null = null;
  #search: AbortController | null = null;
  /** Ends the present session; `onEnd` is called unless it is over already. */
  #cut: (onEnd: () => void) => Promise<unknown> = async () => undefined;

  constructor(
    private readonly plan: ConnectionPlan,
    parts: ClientParts,
  ) {
    super(parts);
  }

  /** Connects by itself. */
  static opened(plan: ConnectionPlan, parts: ClientParts): SingleClient {
    const connection = new SingleClient(plan, parts);
    connection.begin();
    return connection;
  }

  get isWritable(): boolean {
    return this.status === 'ready' && this.#session!.isWritable;
  }

  get endsForGood(): boolean {
    return this.plan.endsForGood;
  }

  /** Where commands are sent, for log texts: never contains a password. */
  get address(): string {
    return this.plan.address;
  }

  /** Where the present connection leads; null while there is none. */
  get peer(): ServerAddress | null {
    return this.status === 'connected' || this.status === 'ready' ? this.#session!.peer : null;
  }

  get streams(): readonly Session['stream'][] {
    return [this.#session?.stream];
  }

  reconnect(): void {
    if (this.#session) void this.#cut(() => this.#onLoss());
    else if (this.status === 'closed') this.begin();
  }

  /** Opens another connection to the same place, with the same database. It connects by itself. */
  duplicate(): SingleClient {
    return SingleClient.opened({ ...this.plan, endsForGood: false }, this.parts);
  }

  openSubscriber(): SingleClient {
    return this.duplicate();
  }

  /** A search that began before the last report may end with another server. */
  watchMaster(onMaster: (leadsToMaster: LeadsToMaster) => void): MasterWatch | null {
    const watch = this.plan.watchMaster?.(onMaster);
    if (!watch) return null;
    const stop = this.on('connected', () => watch.repeat());
    const close = (): Promise<void> => {
      stop();
      return watch.close();
    };
    return { close };
  }

  send(words: Operands): Promise<unknown> {
    return this.isWritable ? this.#session!.send(words) : Promise.reject(unsentError());
  }

  /** Any command without keys that changes nothing, for queries of users. */
  call(words: readonly string[]): Promise<unknown> {
    return this.send(words);
  }

  /** Admits the next command, which reports a refusal, at a node of a cluster to which its slot is moving. */
  asking(): void {
    this.send(['asking']).catch(ignore);
  }

  /** INFO. Takes the same number of promise steps as a script, so its answer counts before that of a later script. */
  info(section?: 'server'): Promise<string> {
    return this.send(section ? ['info', section] : ['info']) as Promise<string>;
  }

  /** TIME, in microseconds. Rejects if the answer is not a time. */
  async time(): Promise<number> {
    return readTime(await this.send(['time']));
  }

  /** Rejects for an answer without a cursor and keys. */
  async scan(cursor: string, pattern: string, count: number): Promise<[cursor: string, keys: string[]]> {
    return readScan(await this.send(['scan', cursor, 'match', pattern, 'count', count]));
  }

  /** How many replicas have all writes of this connection. Rejects if the answer is not a number. */
  async wait(replicas: number, timeoutMs: number): Promise<number> {
    return readWait(await this.send(['wait', replicas, timeoutMs]));
  }

  async subscribe(channel: string): Promise<void> {
    if (!this.isWritable) throw unsentError();
    await this.#session!.subscribe(channel);
  }

  protected override open(): void {
    const { target } = this.plan;
    if (typeof target === 'function') void this.#searchFor(target);
    else this.#openAt(target);
  }

  protected override drop(): Promise<unknown> {
    this.#search?.abort();
    return this.#cut(ignore);
  }

  async #searchFor(find: (signal: AbortSignal) => Promise<Target>): Promise<void> {
    const search = (this.#search = new AbortController());
    try {
      const target = await find(search.signal);
      if (!search.signal.aborted) this.#openAt(target);
    } catch (error) {
      if (!search.signal.aborted) this.#onLoss(error as Error);
    }
  }

  /** The session has a deadline in every state: a server may accept it, and stay silent. */
  #openAt(target: Target): void {
    const { clock } = this.parts;
    let isOver = false;
    let cancelDeadline = ignore;
    const expect = (ms: number): void => {
      cancelDeadline();
      cancelDeadline = setDeadline(clock, () => void end(() => this.#onLoss()), ms);
    };
    const end = async (onEnd: () => void): Promise<unknown> => {
      if (isOver) return undefined;
      isOver = true;
      cancelDeadline();
      const session = this.#session;
      this.#session = null;
      const ended = session?.end();
      onEnd();
      return ended;
    };
    const onMaster = (): void => {
      cancelDeadline();
      if (!isOver) this.become('ready');
    };
    const onReplica = (): void => {
      target.onReplica!();
      void end(() => this.#onLoss(new Error('the server that the sentinels name is a replica')));
    };
    this.#cut = end;
    expect(this.plan.connectTimeout + GREETING_MS);
    try {
      const session = target.open({
        onConnected: () => {
          if (isOver) return;
          expect(GREETING_MS);
          this.become('connected');
        },
        onReady: () => void (isOver || (target.onReplica ? this.#checkRole(onMaster, onReplica) : onMaster())),
        onMessage: (channel, text) => void (isOver || this.emit('message', channel, text)),
        onOver: (error) => void end(() => this.#onLoss(error)),
      });
      if (isOver) void session.end();
      else this.#session = session;
    } catch (error) {
      // The application may have changed the options of its client since then.
      void end(() => this.#onLoss(error as Error));
    }
  }

  /** A server that does not report its role counts as a master. */
  async #checkRole(onMaster: () => void, onReplica: () => void): Promise<void> {
    const info = await this.#session!.send(['info', 'replication']).catch(() => '');
    if (/^role:slave/m.test(String(info))) onReplica();
    else onMaster();
  }

  #onLoss(error?: Error): void {
    this.lose(error, this.endsForGood || this.failures >= (this.plan.maxFailures ?? Infinity));
  }
}

/** The answer to TIME, in microseconds. */
function readTime(answer: unknown): number {
  const [seconds, micros, ...rest] = Array.isArray(answer) ? answer.map(String) : [];
  const isTime = [seconds, micros].every((part) => part !== undefined && /^\d+$/.test(part)) && rest.length === 0;
  if (isTime) return Number(seconds) * 1_000_000 + Number(micros);
  throw new Error('the answer to TIME is not a time');
}

function readScan(answer: unknown): [cursor: string, keys: string[]] {
  const [next, keys] = Array.isArray(answer) ? (answer as unknown[]) : [];
  const isRight = /^\d+$/.test(String(next)) && Array.isArray(keys) && keys.every((key) => typeof key === 'string');
  if (isRight) return [String(next), keys];
  throw new Error('the answer to SCAN has no cursor and keys');
}

/** The answer to WAIT: a number of replicas. */
function readWait(answer: unknown): number {
  if (Number.isSafeInteger(answer) && (answer as number) >= 0) return answer as number;
  throw new Error('the answer to WAIT is not a number');
}

// How adapters report that a command had no connection, with the same words for every library.

/** There was no connection for a command, and none of it will be sent. */
export const unsentError = (): Error => named('UnsentError', 'there was no connection to send it by');

/** The connection was lost before the answer came. */
export const lostError = (cause?: unknown): Error => named('LostError', 'the connection was lost', cause);

const named = (name: string, message: string, cause?: unknown): Error =>
  Object.assign(new Error(message, { cause }), { name });
