import { EventEmitter, setMaxListeners } from 'node:events';
import { type Clock, setDeadline } from '../../../core/clock.js';
import { type ClientParts, lostError, readScan, readTime, readWait, unsentError } from '../client-library.js';
import { type NodeRedis } from './options.js';
import {
  type ClientEvents,
  type ClientStatus,
  type LeadsToMaster,
  type MasterWatch,
  type Operands,
  type SingleClient,
} from '../redis-client.js';
import { type ServerAddress } from '../server-address.js';
import { GREETING_MS, reconnectDelayMs } from '../../timing.js';

/** Texts and numbers; a map of RESP3 is a list, as in RESP2. The key is that of node-redis for maps. */
const TYPES = { 37: Array };

/** Ends the commands that a connection has not written when it is lost; each of them listens to it. */
function newLoss(): AbortController {
  const loss = new AbortController();
  setMaxListeners(0, loss.signal);
  return loss;
}

/**
 * Sends a command, whatever the application chose for its own: replies are texts and numbers, no matter how it maps types. The
 * command waits in the queue of the client until the end of the turn, and longer where the socket takes no more. Were the
 * connection lost meanwhile, the client would send it by the next one. Therefore `loss` takes it back.
 */
async function sendBy(client: NodeRedis, args: readonly string[], loss: AbortSignal): Promise<unknown> {
  try {
    return await client.sendCommand(args, { typeMapping: TYPES, timeout: undefined, asap: false, abortSignal: loss });
  } catch (error) {
    throw errorOfCommand(error as Error);
  }
}

/** These say that the command is still unsent, and will never be sent. */
const UNSENT = new Set(['The command was aborted', 'The client is closed', 'The client is offline']);

/** The error of a command in the words of the port. All that is no reply comes from the end of a connection. */
export function errorOfCommand(error: Error): Error {
  if (isReply(error)) return asReply(error);
  if (error.message === 'The queue is full') return error;
  return UNSENT.has(error.message) ? unsentError() : lostError(error);
}

/** The error of a connection in the words of the port, which are those of Node; undefined: it ended without one. */
export function errorOfConnection(error: Error): Error | undefined {
  if (error.message === 'Socket closed unexpectedly') return undefined;
  if (error.message === 'Connection timeout') return new Error('connect ETIMEDOUT', { cause: error });
  return isReply(error) ? asReply(error) : error;
}

/** By class, whichever copy of node-redis made it; and by form, because bundlers rename classes. */
function isReply(error: Error): boolean {
  for (let one: object | null = error; one !== null; one = Object.getPrototypeOf(one) as object | null) {
    if (one.constructor?.name === 'ErrorReply') return true;
  }
  return !('code' in error) && /^[A-Z][A-Z0-9]+ /.test(error.message);
}

const asReply = (error: Error): Error => Object.assign(error, { name: 'ReplyError' });

/** The listeners of a client. */
class ClientEmitter {
  readonly #emitter = new EventEmitter().setMaxListeners(0);
  #count = 0;

  /** `onChange` is called when the first listener comes and when the last one has gone. */
  constructor(private readonly onChange: (isHeard: boolean) => void = () => undefined) {}

  on<E extends keyof ClientEvents>(event: E, listener: (...args: ClientEvents[E]) => void): () => void {
    const heard = listener as (...args: unknown[]) => void;
    this.#emitter.on(event, heard);
    this.#count += 1;
    if (this.#count === 1) this.onChange(true);
    let isRemoved = false;
    return () => {
      if (isRemoved) return;
      isRemoved = true;
      this.#emitter.off(event, heard);
      this.#count -= 1;
      if (this.#count === 0) this.onChange(false);
    };
  }

  once(event: keyof ClientEvents, listener: () => void): () => void {
    const remove = this.on(event, () => {
      remove();
      listener();
    });
    return remove;
  }

  emit<E extends keyof ClientEvents>(event: E, ...args: ClientEvents[E]): void {
    // Without a listener, an emitter throws its errors.
    if (this.#emitter.listenerCount(event) > 0) this.#emitter.emit(event, ...args);
  }

  /** Resolves when a connection that begins now is ready; rejects when it fails. */
  untilReady(): Promise<void> {
    return new Promise((resolve, reject) => {
      let lastError: Error | undefined;
      const settle = (settleBy: () => void): void => {
        for (const stop of stops) stop();
        settleBy();
      };
      const fail = (): void => settle(() => reject(lastError ?? lostError()));
      const stops = [
        this.on('error', (error) => (lastError = error)),
        this.on('ready', () => settle(resolve)),
        this.on('closed', fail),
        this.on('ended', fail),
      ];
    });
  }
}

/** The commands of the port, each as the words that are sent. */
abstract class NodeRedisCommands {
  protected abstract send(args: readonly string[]): Promise<unknown>;

  /** node-redis itself writes at once what is sent in one turn. */
  inOneWrite(send: () => void): void {
    send();
  }

  evaluateSha(sha1: string, operands: Operands): Promise<unknown> {
    return this.send(['evalsha', sha1, ...operands.map(String)]);
  }

  evaluate(text: string, operands: Operands): Promise<unknown> {
    return this.send(['eval', text, ...operands.map(String)]);
  }

  call(words: readonly string[]): Promise<unknown> {
    return this.send(words);
  }

  /** node-redis gives up a connection whose SELECT is refused. */
  async select(): Promise<void> {}

  /** The next command follows in the same turn, and nothing comes between them. It reports a refusal. */
  asking(): void {
    this.send(['asking']).catch(() => undefined);
  }

  async info(section?: 'server'): Promise<string> {
    return String(await this.send(section ? ['info', section] : ['info']));
  }

  async time(): Promise<number> {
    return readTime(await this.send(['time']));
  }

  async scan(cursor: string, pattern: string, count: number): Promise<[cursor: string, keys: string[]]> {
    return readScan(await this.send(['scan', cursor, 'match', pattern, 'count', String(count)]));
  }

  async wait(replicas: number, timeoutMs: number): Promise<number> {
    return readWait(await this.send(['wait', String(replicas), String(timeoutMs)]));
  }
}

/** Makes a client that is not connected yet and never reconnects; `cut` destroys its socket, whatever that is doing. */
export type MakeClient = (cut: AbortSignal) => NodeRedis;

interface TryListener {
  onConnected(): void;
  onReady(): void;
  /** The server must be a master; without this, it is not asked. */
  readonly onReplica?: (() => void) | undefined;
  /** It is over, and nothing comes from it any more. */
  onOver(error: Error | undefined): void;
}

/**
 * One socket of a connection of ours, from its first packet to its end. node-redis would reconnect by itself, and cannot be cut
 * and opened again: while a client waits for a host, or pauses between two tries, it begins a second loop of them. So each socket
 * has a client of its own. It has a deadline in every state: a server may accept it, and stay silent.
 */
export class ConnectionTry {
  readonly client: NodeRedis;
  /** Takes back the commands that were not written when it is over. */
  readonly #loss = newLoss();
  readonly #cut = new AbortController();
  #isOver = false;
  #cancelDeadline: () => void;

  constructor(
    make: MakeClient,
    connectTimeout: number,
    clock: Clock,
    private readonly listener: TryListener,
  ) {
    this.client = make(this.#cut.signal);
    const silent = (): void => this.end();
    this.#cancelDeadline = setDeadline(clock, silent, connectTimeout + GREETING_MS);
    const unlessOver = (react: () => void) => (): void => void (this.#isOver || react());
    const onConnect = unlessOver(() => {
      this.#cancelDeadline();
      this.#cancelDeadline = setDeadline(clock, silent, GREETING_MS);
      listener.onConnected();
    });
    const onMaster = unlessOver(() => {
      this.#cancelDeadline();
      listener.onReady();
    });
    const onReady = unlessOver(
      () => void (listener.onReplica ? this.#checkRole(onMaster, listener.onReplica) : onMaster()),
    );
    this.client.on('connect', onConnect).on('ready', onReady);
    this.client.on('error', (error: Error) => this.end(error)).on('end', () => this.end());
  }

  get loss(): AbortSignal {
    return this.#loss.signal;
  }

  start(): void {
    this.client.connect().catch((error: Error) => this.end(error));
  }

  /** Ends it at once, and rejects what has no answer. */
  end(error?: Error): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.#cancelDeadline();
    this.#loss.abort();
    this.#destroy();
    this.listener.onOver(error && errorOfConnection(error));
  }

  /** What does not say which role it has counts as a master. */
  async #checkRole(onMaster: () => void, onReplica: () => void): Promise<void> {
    const info = await sendBy(this.client, ['info', 'replication'], this.loss).catch(() => '');
    if (!/^role:slave/m.test(String(info))) return onMaster();
    onReplica();
    this.end(new Error('the server that the sentinels name is a replica'));
  }

  #destroy(): void {
    try {
      this.client.destroy();
    } catch {
      // node-redis 5 says so when it has ended already.
    }
    // `destroy` forgets a socket that still waits for its host, and that would live on once it is connected.
    this.#cut.abort();
  }
}

/** What a connection and a cluster of our own have in common: they are opened again and again until they are told to end. */
export abstract class OwnClient extends NodeRedisCommands {
  protected readonly events = new ClientEmitter();
  #status: ClientStatus = 'idle';
  #failures = 0;
  #supervisors = 0;
  #cancelRetry = (): void => undefined;

  constructor(protected readonly parts: ClientParts) {
    super();
  }

  abstract readonly endsForGood: boolean;

  /** Opens it; the state is `connecting`. */
  protected abstract open(): void;
  /** Ends what is open, or is being opened, without a report. */
  protected abstract drop(): void;

  get status(): ClientStatus {
    return this.#status;
  }

  protected get failures(): number {
    return this.#failures;
  }

  on<E extends keyof ClientEvents>(event: E, listener: (...args: ClientEvents[E]) => void): () => void {
    return this.events.on(event, listener);
  }

  once(event: keyof ClientEvents, listener: () => void): () => void {
    return this.events.once(event, listener);
  }

  connect(): Promise<void> {
    if (this.#status === 'ready') return Promise.resolve();
    const ready = this.events.untilReady();
    if (this.#status === 'idle' || this.#status === 'ended') this.begin();
    return ready;
  }

  disconnect(): void {
    if (this.#status === 'ended') return;
    const wasOpen = this.#status !== 'idle' && this.#status !== 'closed';
    this.#cancelRetry();
    this.#status = 'ended';
    this.drop();
    if (wasOpen) this.events.emit('closed');
    this.events.emit('ended');
  }

  /** Node closes the sockets that were destroyed at the end of a turn of its event loop: after the second one, nothing is left. */
  async close(): Promise<void> {
    this.disconnect();
    // oxlint-disable-next-line eslint/no-restricted-globals -- no clock counts the turns of the event loop
    for (let turn = 1; turn <= 2; turn += 1) await new Promise((resolve) => void setImmediate(resolve));
  }

  /** Sockets have their deadlines anyway. */
  supervise(): () => void {
    this.#supervisors += 1;
    const stopReopening = this.on('ended', () => {
      if (!this.endsForGood) this.retry();
    });
    return () => {
      stopReopening();
      this.#supervisors -= 1;
      if (this.#supervisors === 0 && this.#status === 'ended') this.#cancelRetry();
    };
  }

  protected begin(): void {
    this.#cancelRetry();
    this.#status = 'connecting';
    this.events.emit('connecting');
    this.open();
  }

  protected become(status: 'connected' | 'ready'): void {
    if (status === 'ready') this.#failures = 0;
    this.#status = status;
    this.events.emit(status);
  }

  /** It is over; `isEnd`: for good. */
  protected lose(error: Error | undefined, isEnd = false): void {
    this.#status = isEnd ? 'ended' : 'closed';
    if (error) this.events.emit('error', error);
    this.events.emit('closed');
    if (isEnd) this.events.emit('ended');
    else if (this.#status === 'closed') this.retry();
  }

  /** It could not even begin, so that nothing is lost. */
  protected fail(error: Error): void {
    this.#status = 'closed';
    this.events.emit('error', error);
    if (this.#status === 'closed') this.retry();
  }

  protected retry(): void {
    this.#cancelRetry();
    this.#failures += 1;
    const begin = (): void => {
      if (this.#status === 'closed' || this.#status === 'ended') this.begin();
    };
    this.#cancelRetry = this.parts.clock.setTimer(begin, reconnectDelayMs(this.#failures));
  }
}

/** What a connection leads to, and how a client for it is made. */
export interface Target {
  readonly make: MakeClient;
  /** Null for a Unix socket. */
  readonly peer: ServerAddress | null;
  /** Behind Sentinel: a server that is a replica is left before it gets a command, and reported. */
  readonly onReplica?: () => void;
}

/** How a connection of ours is opened, each time that it is. */
export interface ConnectionPlan {
  /** For people: never a password. */
  readonly address: string;
  readonly database: number;
  /** Whether it stays closed once it has ended. */
  readonly endsForGood: boolean;
  readonly connectTimeout: number;
  /** After so many failed tries in a row, it ends; without a number, never. */
  readonly maxFailures?: number;
  /** Where it leads now: behind Sentinel, a question. `signal`: the answer is of no use any more. */
  readonly target: Target | ((signal: AbortSignal) => Promise<Target>);
  /** The plan of one more connection, where that is another one. */
  readonly again?: () => ConnectionPlan;
  readonly watchMaster?: (onMaster: (leadsToMaster: LeadsToMaster) => void) => MasterWatch;
}

/** A connection of our own: one socket after the other, each with a client of node-redis. */
export class OwnConnection extends OwnClient implements SingleClient {
  readonly isCluster = false;
  #try: ConnectionTry | null = null;
  #peer: ServerAddress | null = null;
  #search: AbortController | null = null;
  #channels = new Set<string>();

  constructor(
    private readonly plan: ConnectionPlan,
    parts: ClientParts,
  ) {
    super(parts);
  }

  /** Connects by itself, as duplicates do. */
  static opened(plan: ConnectionPlan, parts: ClientParts): OwnConnection {
    const connection = new OwnConnection(plan, parts);
    connection.begin();
    return connection;
  }

  get isWritable(): boolean {
    return this.status === 'ready' && this.#try!.client.isReady;
  }

  get endsForGood(): boolean {
    return this.plan.endsForGood;
  }

  get address(): string {
    return this.plan.address;
  }

  get database(): number {
    return this.plan.database;
  }

  get peer(): ServerAddress | null {
    return this.status === 'connected' || this.status === 'ready' ? this.#peer : null;
  }

  reconnect(): void {
    if (this.#try) this.#try.end();
    else if (this.status === 'closed') this.begin();
  }

  duplicate(): OwnConnection {
    return OwnConnection.opened({ ...(this.plan.again?.() ?? this.plan), endsForGood: false }, this.parts);
  }

  openSubscriber(): OwnConnection {
    return this.duplicate();
  }

  watchMaster(onMaster: (leadsToMaster: LeadsToMaster) => void): MasterWatch | null {
    return this.plan.watchMaster?.(onMaster) ?? null;
  }

  /** Sends any command. */
  override send(args: readonly string[]): Promise<unknown> {
    if (!this.isWritable) return Promise.reject(unsentError());
    const { client, loss } = this.#try!;
    return sendBy(client, args, loss);
  }

  async subscribe(channel: string): Promise<void> {
    // node-redis answers by itself when it is subscribed: nothing would show that the server is still there.
    if (this.#channels.has(channel)) return void (await this.send(['ping']));
    if (!this.isWritable) throw unsentError();
    const [{ client }, channels] = [this.#try!, this.#channels];
    try {
      await client.subscribe(channel, (text, from) => this.events.emit('message', from, text));
      channels.add(channel);
    } catch (error) {
      throw errorOfCommand(error as Error);
    }
  }

  protected override open(): void {
    const { target } = this.plan;
    if (typeof target === 'function') void this.#searchFor(target);
    else this.#openAt(target);
  }

  protected override drop(): void {
    this.#search?.abort();
    const one = this.#try;
    this.#try = null;
    one?.end();
  }

  async #searchFor(find: (signal: AbortSignal) => Promise<Target>): Promise<void> {
    const search = (this.#search = new AbortController());
    try {
      const target = await find(search.signal);
      if (!search.signal.aborted) this.#openAt(target);
    } catch (error) {
      if (!search.signal.aborted) this.fail(error as Error);
    }
  }

  #openAt({ make, peer, onReplica }: Target): void {
    this.#peer = peer;
    this.#channels = new Set();
    const { connectTimeout } = this.plan;
    try {
      const one: ConnectionTry = new ConnectionTry(make, connectTimeout, this.parts.clock, {
        onConnected: () => this.become('connected'),
        onReady: () => this.become('ready'),
        onReplica,
        onOver: (error) => this.#try === one && this.#onLoss(error),
      });
      this.#try = one;
      one.start();
    } catch (error) {
      // The application may have changed the options of its client since.
      this.#onLoss(error as Error);
    }
  }

  #onLoss(error: Error | undefined): void {
    this.#try = null;
    this.lose(error, this.endsForGood || this.failures >= (this.plan.maxFailures ?? Infinity));
  }
}
