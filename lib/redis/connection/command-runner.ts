import { type Clock } from '../../core/clock.js';
import { FreshMap } from '../../core/fresh-map.js';
import { LockStoreError } from '../../core/lock.errors.js';
import { type Reporter } from '../../core/reporter.js';
import { type Outcome } from '../../core/store/callback-store.js';
import { type Subject, forSubject, keyOfSubject } from '../../core/store/subject.js';
import { type LeadsToMaster, type Operands, type RedisClient, type SingleClient } from '../client/redis-client.js';
import { type LuaScript } from '../scripts/lua.js';
import { type Destination } from './cluster-nodes.js';
import { Command, type CommandRequest, type Delivery } from './command.js';
import { ConnectionHealth } from './connection-health.js';
import { LiveClient } from './live-client.js';
import { isNoScript, storeError } from './redis-errors.js';
import { type Echo, hasWritten, readLone } from './reply-reader.js';
import { ifElsewhere } from './demotion.js';
import { NODE_INFO_TIMEOUT_MS } from '../timing.js';
import { SilenceWatch } from './silence-watch.js';
import { warnOfFailedStart } from './start-warning.js';

type AnyScript = LuaScript<any, any, any>;

/** A script to send. */
export interface Script {
  readonly script: AnyScript;
  readonly operands: Operands;
  /** Whether to send ASKING first: a node to which the slot is moving serves no other command. */
  readonly asking?: boolean;
}

/** One script for one lock, and what to expect of its reply. */
export interface ScriptCall extends Script, Pick<CommandRequest<string[]>, 'timeoutMs' | 'onLate' | 'onStart'> {
  /** For errors. */
  readonly key: string;
  readonly echo?: Echo;
}

/** A script that answers for one lock or several; `storageKey` is that of one of them. */
interface BatchCall extends Pick<
  CommandRequest<string[][]>,
  'subject' | 'storageKey' | 'timeoutMs' | 'onLate' | 'onStart'
> {
  /** Is asked when there is a connection, and each time that it is sent. */
  readonly toSend: () => Script;
  /** The reply as lists; undefined if it belongs to another command. */
  readonly read: (reply: unknown) => string[][] | undefined;
}

/**
 * Runs scripts and commands under deadlines of our own: ioredis may leave a promise pending forever (a half-open socket, a
 * lost reply). Every script may be sent again without harm.
 */
export class CommandRunner {
  readonly #live: LiveClient;
  readonly #health: ConnectionHealth;
  /** Serves the locks on nodes of a given cluster that do not answer its client. */
  #spare: CommandRunner | null = null;
  /** The commands that have no answer yet. */
  readonly #commands = new FreshMap<Command<any, any>, true>();
  #stopWarning = (): void => undefined;
  #stopMove = (): void => undefined;

  /** `isOwned`: the client is ours to cut and to close. */
  constructor(
    client: RedisClient,
    isOwned: boolean,
    private readonly clock: Clock,
    private readonly reporter: Reporter,
  ) {
    const silence = new SilenceWatch(clock);
    this.#live = new LiveClient(client, isOwned, clock, reporter, silence);
    this.#health = new ConnectionHealth(this.#live, silence, reporter);
  }

  get isCluster(): boolean {
    return this.#live.client.isCluster;
  }

  /** The client to send by, for a storage key if the command is about one. */
  liveClient(storageKey?: string): RedisClient {
    const client = this.#live.current;
    return (storageKey !== undefined && this.#spareFor({ storageKey })?.liveClient()) || client;
  }

  /** The runner that reaches all nodes: another one than this when a node of a given cluster does not answer. */
  get forAllNodes(): CommandRunner {
    const client = this.liveClient();
    const nodes = client.isCluster ? client.nodes('master') : [];
    const silent = nodes.find((node) => this.#health.isSilent({ node }));
    return (silent && this.#spareFor({ node: silent })) ?? this;
  }

  /** Why no command can be sent since the connection was lost; null while there is one, and before the first one. */
  get outage(): Error | null {
    this.liveClient();
    const { isDown, lastError } = this.#live.state;
    return isDown ? (lastError ?? new Error('the connection was lost')) : null;
  }

  /** Where commands go, for people: never a password. */
  get address(): string {
    const { current } = this.#live;
    return current.isCluster ? 'a cluster' : current.address;
  }

  /** Another number after a connection was lost, to any node: commands sent before may have been sent twice. */
  get epoch(): number {
    return this.#live.epoch + (this.#spare?.epoch ?? 0);
  }

  /** The run id of the server that the last reply came from; null while it is unknown or not reported, and for a cluster. */
  get serverId(): string | null {
    return this.#live.serverId.value;
  }

  /** Is called with the INFO of the server each time that `serverId` has become known. */
  set onServerId(callback: (info: string) => void) {
    this.#live.onServerId = callback;
  }

  /** Checks that the server of the present connection answers; otherwise the connection is replaced. */
  checkServer(): void {
    const client = this.#live.current;
    if (client.isCluster) return;
    const request = { subject: 'INFO', timeoutMs: NODE_INFO_TIMEOUT_MS };
    this.send(client, () => client.info('server'), request).catch(() => undefined);
  }

  /** Resolves with the script's reply as strings. @throws LockStoreError */
  run(call: ScriptCall): Promise<string[]> {
    const { operands, key, timeoutMs, echo, onLate, onStart } = call;
    const read = (reply: unknown): string[][] | undefined => readLone(echo, reply);
    const request = { subject: key, storageKey: String(operands[1]), timeoutMs, onStart };
    const late = onLate && { onLate: ([reply]: string[][]): void => onLate(reply!) };
    return new Promise((resolve, reject) => {
      this.start({ ...request, ...late, toSend: () => call, read }, { resolve: ([reply]) => resolve(reply!), reject });
    });
  }

  /** Passes on the replies for all locks, or a `LockStoreError`. */
  start(call: BatchCall, outcome: Outcome<string[][], Error>): void {
    const { subject, storageKey, timeoutMs, onLate, onStart, toSend, read } = call;
    const spare = this.#spareFor({ storageKey });
    if (spare) return spare.start(call, outcome);
    const request: CommandRequest<string[][] | undefined> = {
      subject,
      storageKey,
      timeoutMs,
      onStart,
      onLate: (replies) => replies && onLate?.(replies),
    };
    const delivery: Delivery<unknown, string[][] | undefined> = {
      clientNow: () => this.#live.current,
      send: (client) => evaluate(client, toSend(), 'sha1'),
      sendAfter: (error) => (isNoScript(error) ? (client) => evaluate(client, toSend(), 'text') : null),
      read: (reply, sentBy, sentTo) => {
        const replies = read(reply);
        if (!replies) this.#health.replace(sentBy, sentTo);
        else if (replies.some(hasWritten)) this.#health.onWritten(sentBy);
        return replies;
      },
    };
    this.#start(request, delivery, {
      resolve: (replies) => {
        if (replies) return outcome.resolve(replies);
        const text = `Redis sent the reply of another command ${forSubject(subject)}.`;
        outcome.reject(new LockStoreError(text, { key: keyOfSubject(subject) }));
      },
      reject: (error) => outcome.reject(error),
    });
  }

  /** As `RedisClient.inOneWrite`. */
  inOneWrite(send: () => void): void {
    this.#live.current.inOneWrite(send);
  }

  /** Sends any command by a client of `liveClient`, under the deadline of the request. @throws LockStoreError */
  send<T>(client: RedisClient, send: () => Promise<T>, request: CommandRequest<T>): Promise<T> {
    const delivery: Delivery<T, T> = { clientNow: () => client, send, read: (answer) => answer };
    return new Promise((resolve, reject) => this.#start(request, delivery, { resolve, reject }));
  }

  /** Behind Sentinel: leaves a server that is no longer the master; `onMove` receives the connection that follows. */
  move(leadsToMaster: LeadsToMaster, onMove: (next: RedisClient) => void): void {
    const client = this.#live.current;
    if (client.isCluster) return;
    this.#stopMove();
    this.#stopMove = ifElsewhere(client, leadsToMaster, () => {
      this.#health.onDemotion(client);
      onMove(this.#live.current);
    });
  }

  /** Connects a client of our own. Failures are retried, and reported by the commands. */
  connect(): void {
    this.#stopWarning = warnOfFailedStart(this.#live.current, this.reporter);
    this.#live.connect();
  }

  async close(): Promise<void> {
    this.#stopWarning();
    await Promise.all([this.#live.close(), this.#spare?.close()]);
    // ioredis never settles a command that it meant to send again.
    for (const command of this.#commands.keys()) command.fail(new Error('the connection was closed'));
  }

  #spareFor(to: Destination): CommandRunner | null {
    if (this.#live.isClosed || !this.#health.isSilent(to)) return null;
    const { current, inOurContext } = this.#live;
    return (this.#spare ??= inOurContext(() => {
      return new CommandRunner(current.duplicate(), true, this.clock, this.reporter);
    }));
  }

  #start<A, T>(request: CommandRequest<T>, delivery: Delivery<A, T>, outcome: Outcome<T, Error>): void {
    const ended: Outcome<T, Error> = {
      resolve: (answer) => {
        this.#commands.delete(command);
        outcome.resolve(answer);
      },
      reject: (error) => {
        this.#commands.delete(command);
        outcome.reject(this.#failureOf(command, request.subject, error));
      },
    };
    const command = new Command(request, delivery, ended, this.#live, this.#health);
    this.#commands.set(command, true);
    command.start();
  }

  #failureOf({ wasSent, sentBy, sentTo }: Command<any, any>, subject: Subject, error: Error): LockStoreError {
    if (sentBy) this.#health.onFailure(error, sentBy, sentTo);
    const { current, state } = this.#live;
    const isSingle = !current.isCluster && !current.endsForGood;
    return storeError(subject, error, { connectionError: state.lastError, wasSent, isSingle });
  }
}

/** EVALSHA, or EVAL where the server does not know the script. */
function evaluate(client: RedisClient, { script, operands, asking }: Script, by: 'sha1' | 'text'): Promise<unknown> {
  if (asking) (client as SingleClient).asking();
  return by === 'sha1' ? client.evaluateSha(script.sha1, operands) : client.evaluate(script.text, operands);
}
