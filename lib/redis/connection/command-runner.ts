import { type Clock } from '../../core/clock.js';
import { LockStoreError } from '../../core/lock.errors.js';
import { type Reporter } from '../../core/reporter.js';
import { type LeadsToMaster, type Operands, type RedisClient, type SingleClient } from '../client/redis-client.js';
import { type LuaScript } from '../scripts/lua.js';
import { type Destination } from './cluster-nodes.js';
import { Command, type CommandRequest } from './command.js';
import { ConnectionHealth } from './connection-health.js';
import { LiveClient } from './live-client.js';
import { isNoScript, storeError } from './redis-errors.js';
import { type Echo, hasWritten, readReply } from './reply-reader.js';
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
export interface ScriptCall extends Script, Pick<CommandRequest<string[]>, 'key' | 'timeoutMs' | 'onLate' | 'onStart'> {
  readonly echo?: Echo;
}

/** A script that answers for several locks; `storageKey` is that of one of them. */
interface BatchCall extends Pick<
  CommandRequest<string[][]>,
  'key' | 'storageKey' | 'timeoutMs' | 'onLate' | 'onStart'
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
  readonly #commands = new Set<Command<any>>();
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

  /** Is called each time that `serverId` has become known. */
  set onServerId(callback: () => void) {
    this.#live.onServerId = callback;
  }

  /** Checks that the server of the present connection answers; otherwise the connection is replaced. */
  checkServer(): void {
    const client = this.#live.current;
    if (client.isCluster) return;
    const request = { key: 'INFO', timeoutMs: NODE_INFO_TIMEOUT_MS };
    this.send(client, () => client.info('server'), request).catch(() => undefined);
  }

  /** Resolves with the script's reply as strings. @throws LockStoreError */
  async run(call: ScriptCall): Promise<string[]> {
    const { operands, key, timeoutMs, echo, onLate, onStart } = call;
    const read = (reply: unknown): string[][] | undefined => {
      const one = readReply(echo, reply);
      return one && [one];
    };
    const onLateReply = onLate && (([reply]: string[][]): void => onLate(reply!));
    const request = {
      key,
      storageKey: String(operands[1]),
      timeoutMs,
      onStart,
      ...(onLateReply && { onLate: onLateReply }),
    };
    const [reply] = await this.runBatch({ ...request, toSend: () => call, read });
    return reply!;
  }

  /** Resolves with the replies for all locks. @throws LockStoreError */
  async runBatch(call: BatchCall): Promise<string[][]> {
    const { key, storageKey, timeoutMs, onLate, onStart, toSend, read } = call;
    const spare = this.#spareFor({ ...(storageKey !== undefined && { storageKey }) });
    if (spare) return spare.runBatch(call);
    const request: CommandRequest<string[][] | undefined> = {
      key,
      ...(storageKey !== undefined && { storageKey }),
      timeoutMs,
      onStart,
      onLate: (replies) => replies && onLate?.(replies),
    };
    const replies = await this.#perform(request, async (command) => {
      const answer = read(await this.#evaluate(toSend, command));
      if (!answer) this.#health.replace(command.sentBy!, command.sentTo);
      else if (answer.some(hasWritten)) this.#health.onWritten(command.sentBy!);
      return answer;
    });
    if (replies) return replies;
    throw new LockStoreError(`Redis sent the reply of another command for the lock "${key}".`, { key });
  }

  /** Sends any command by a client of `liveClient`, under the deadline of the request. @throws LockStoreError */
  send<T>(client: RedisClient, send: () => Promise<T>, request: CommandRequest<T>): Promise<T> {
    return this.#perform(request, (command) => command.deliver(() => client, send));
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
    for (const command of this.#commands) command.fail(new Error('the connection was closed'));
  }

  #spareFor(to: Destination): CommandRunner | null {
    if (this.#live.isClosed || !this.#health.isSilent(to)) return null;
    const { current, inOurContext } = this.#live;
    return (this.#spare ??= inOurContext(() => {
      return new CommandRunner(current.duplicate(), true, this.clock, this.reporter);
    }));
  }

  async #perform<T>(request: CommandRequest<T>, answerTo: (command: Command<T>) => Promise<T>): Promise<T> {
    const command = new Command<T>(request, this.#live, this.#health);
    this.#commands.add(command);
    try {
      return await command.settle(answerTo(command));
    } catch (error) {
      const { wasSent, sentBy, sentTo } = command;
      if (sentBy) this.#health.onFailure(error as Error, sentBy, sentTo);
      const { current, state } = this.#live;
      const isSingle = !current.isCluster && !current.endsForGood;
      throw storeError(request.key, error, { connectionError: state.lastError, wasSent, isSingle });
    } finally {
      this.#commands.delete(command);
    }
  }

  /** EVALSHA, and EVAL where the server does not know the script. */
  async #evaluate(toSend: () => Script, command: Pick<Command<unknown>, 'deliver'>): Promise<unknown> {
    const deliver = (send: (client: RedisClient, call: Script) => Promise<unknown>): Promise<unknown> =>
      command.deliver(
        () => this.#live.current,
        (client) => {
          const call = toSend();
          if (call.asking) (client as SingleClient).asking();
          return send(client, call);
        },
      );
    try {
      return await deliver((client, { script, operands }) => client.evaluateSha(script.sha1, operands));
    } catch (error) {
      if (!isNoScript(error as Error)) throw error;
      return deliver((client, { script, operands }) => client.evaluate(script.text, operands));
    }
  }
}
