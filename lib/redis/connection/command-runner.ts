import { type Redis } from 'ioredis';
import { type Clock, setDeadline } from '../../core/clock.js';
import { LockStoreError } from '../../core/lock.errors.js';
import { type Reporter } from '../../core/reporter.js';
import { type Destination } from './cluster-nodes.js';
import { type UnderWay, deliver } from './delivery.js';
import { LiveClient } from './live-client.js';
import { type RedisClient, addressOf, duplicateClient, endsForGood, isCluster } from './redis-client.js';
import { isNoScript, isReadOnly, isSubscriber, storeError } from './redis-errors.js';
import { type LuaScript } from '../scripts/lua.js';
import { type IsThere, ifElsewhere } from './sentinel-watch.js';
import { warnOfFailedStart } from './start-warning.js';

type AnyScript = LuaScript<any, any, any>;

/** One script to run, and what to expect of its reply. */
export interface ScriptCall {
  readonly script: AnyScript;
  readonly operands: readonly (string | number)[];
  /** To the node of a cluster to which the slot is on its way: it serves only who asks for that. */
  readonly asking?: boolean;
  /** For errors. */
  readonly key: string;
  readonly timeoutMs: number;
  /** What the reply's second element has to be: another one is the reply of another command. */
  readonly echo?: string;
  /** Hears a reply that comes after the command was given up. */
  readonly onLate?: (reply: string[]) => void;
  /** Gets a function that withdraws the command, and tells whether it was in time: nothing was sent, or ever will be. */
  readonly onUnderWay?: ((withdraw: () => boolean) => void) | undefined;
}

/** What a command is for, and for how long it is waited. */
interface Asked<T> {
  /** For errors. */
  readonly key: string;
  /** The storage key that the command is about, or none. */
  readonly storageKey?: string;
  /** The connection to a node of a cluster that it is sent by, if not by that of its key. */
  readonly node?: Redis | undefined;
  readonly timeoutMs: number;
  /** Hears an answer that comes after the command was given up. */
  readonly onLate?: (answer: T) => void;
  /** As of a `ScriptCall`. */
  readonly onUnderWay?: ((withdraw: () => boolean) => void) | undefined;
}

/**
 * Runs scripts under deadlines of our own: ioredis may leave a promise pending for ever (a half-open socket, a lost
 * reply). A command is sent only when there is a connection, so that nothing is sent later; sent again, within its time, when
 * its connection was lost; and given up without an answer, when the socket is replaced. Every script may be sent again.
 */
export class CommandRunner {
  readonly #live: LiveClient;
  /** Serves what lies on nodes of a given cluster that do not answer it. */
  #spare: CommandRunner | null = null;
  /** Rejects each command that has no answer yet. */
  readonly #underWay = new Set<(error: Error) => void>();
  #stopWarning = (): void => undefined;

  /** `owned`: the client is ours to cut and to close. */
  constructor(
    client: RedisClient,
    owned: boolean,
    private readonly clock: Clock,
    private readonly reporter: Reporter,
  ) {
    this.#live = new LiveClient(client, owned, clock, reporter);
  }

  /** The client to send by, for a storage key if it is about one. */
  liveClient(storageKey?: string): RedisClient {
    const client = this.#live.current;
    return (storageKey !== undefined && this.#spareFor({ storageKey })?.liveClient()) || client;
  }

  /**
   * Who is to be asked for what is on all nodes: for a given cluster with one that does not answer, who serves in its
   * place.
   */
  get forAllNodes(): CommandRunner {
    const client = this.liveClient();
    const nodes = isCluster(client) ? client.nodes('master') : [];
    const silent = nodes.find((node) => this.#live.isSilent({ node }));
    return (silent && this.#spareFor({ node: silent })) ?? this;
  }

  /** Why no command can be sent now: the connection was lost, and is not back; null when there is one, or not yet. */
  get outage(): Error | null {
    this.liveClient();
    const { isDown, lastError } = this.#live.state;
    return isDown ? (lastError ?? new Error('the connection was lost')) : null;
  }

  /** Where commands go, for people: never a password. */
  get address(): string {
    return addressOf(this.#live.current);
  }

  /** Another number after a connection was lost, to any node: commands sent before may have been sent twice. */
  get epoch(): number {
    return this.#live.epoch + (this.#spare?.epoch ?? 0);
  }

  /**
   * The run id of the server that the last reply came from; null while it is not known, where the user may not ask for
   * it, and for a cluster.
   */
  get serverId(): string | null {
    return this.#live.serverId.value;
  }

  /** Calls back each time when `serverId` has become known. */
  set onServerId(callback: () => void) {
    this.#live.onServerId = callback;
  }

  /** Gives the script's reply as strings. */
  async run(call: ScriptCall): Promise<string[]> {
    const { operands, key, timeoutMs, echo, onLate, onUnderWay } = call;
    const storageKey = String(operands[1]);
    const spare = this.#spareFor({ storageKey });
    if (spare) return spare.run(call);
    const isOurs = (reply: unknown): reply is unknown[] =>
      Array.isArray(reply) && (echo === undefined || String(reply[1]) === echo);
    const asked: Asked<unknown> = {
      key,
      storageKey,
      timeoutMs,
      onUnderWay,
      onLate: (late) => isOurs(late) && onLate?.(late.map(String)),
    };
    const reply = await this.#ask(asked, async (command) => {
      const answer = await this.#evaluate(call, asked, command);
      if (!isOurs(answer)) this.#live.replace(command.sentBy!, command.sentTo);
      return answer;
    });
    if (isOurs(reply)) return reply.map(String);
    throw new LockStoreError(`Redis answered another command than the one for the lock "${key}".`, { key });
  }

  /** Any command to a client of `liveClient`, under its deadline. @throws LockStoreError */
  ask<T>(client: RedisClient, send: () => Promise<T>, asked: Asked<T>): Promise<T> {
    return this.#ask(asked, (command) => deliver(this.#live, () => client, send, asked, command));
  }

  /** Behind Sentinel: leaves a server that is no master any more; `onMove` is told of the connection that follows. */
  move(isThere: IsThere, onMove: (next: RedisClient) => void): void {
    const client = this.#live.current;
    ifElsewhere(client as Redis, isThere, () => {
      this.#live.leaveMaster(client);
      onMove(this.#live.current);
    });
  }

  /** Connects a client of ours; what fails is tried again, and told by the commands. */
  connect(): void {
    this.#stopWarning = warnOfFailedStart(this.#live.current, this.reporter);
    this.#live.connect();
  }

  async close(): Promise<void> {
    this.#stopWarning();
    await Promise.all([this.#live.close(), this.#spare?.close()]);
    // ioredis never settles a command that it meant to send again.
    for (const fail of this.#underWay) fail(new Error('the connection was closed'));
  }

  #spareFor(to: Destination): CommandRunner | null {
    if (this.#live.isClosed || !this.#live.isSilent(to)) return null;
    const { current, inOurContext } = this.#live;
    return (this.#spare ??= inOurContext(() => {
      return new CommandRunner(duplicateClient(current), true, this.clock, this.reporter);
    }));
  }

  async #ask<T>(asked: Asked<T>, answerTo: (command: UnderWay) => Promise<T>): Promise<T> {
    const sending = { wasSent: false, sentBy: null, sentTo: {}, sentAt: 0 };
    const command: UnderWay = { isOver: false, ...sending, wake: () => undefined };
    try {
      return await this.#within(asked, command, answerTo(command));
    } catch (error) {
      const { wasSent, sentBy, sentTo } = command;
      if (sentBy && isSubscriber(error as Error)) this.#live.leaveSubscriber(sentBy);
      if (sentBy && isReadOnly(error)) this.#live.leaveReplica(sentBy, sentTo);
      const { current, state } = this.#live;
      const isSingle = !isCluster(current) && !endsForGood(current);
      throw storeError(asked.key, error, { connectionError: state.lastError, wasSent, isSingle });
    }
  }

  /** EVALSHA, and EVAL where the server does not know the script. */
  async #evaluate(
    { script, operands, asking }: ScriptCall,
    asked: Asked<unknown>,
    command: UnderWay,
  ): Promise<unknown> {
    const [numberOfKeys, ...rest] = operands as [number, ...(string | number)[]];
    const byAny = (send: (client: RedisClient) => Promise<unknown>): Promise<unknown> => {
      const sendHere = (client: RedisClient): Promise<unknown> => {
        // For the next command only; a refusal shows there.
        if (asking) (client as Redis).asking().catch(() => undefined);
        return send(client);
      };
      return deliver(this.#live, () => this.#live.current, sendHere, asked, command);
    };
    try {
      return await byAny((client) => client.evalsha(script.sha1, numberOfKeys, ...rest));
    } catch (error) {
      if (!isNoScript(error as Error)) throw error;
      return byAny((client) => client.eval(script.text, numberOfKeys, ...rest));
    }
  }

  #within<T>({ timeoutMs, onLate, onUnderWay }: Asked<T>, command: UnderWay, answer: Promise<T>): Promise<T> {
    return new Promise((resolve, reject) => {
      let givenUp = false;
      const onTimeout = (): void => {
        givenUp = true;
        const { sentBy } = command;
        if (sentBy) this.#live.onTimeout(sentBy, command, timeoutMs);
        fail(new Error(`no ${sentBy ? 'answer' : 'connection'} within ${Math.round(timeoutMs)} ms`));
      };
      const cancel = this.#live.inOurContext(() => setDeadline(this.clock, onTimeout, timeoutMs));
      const end = (): void => {
        cancel();
        command.isOver = true;
        command.wake();
        this.#underWay.delete(fail);
      };
      const settle = (value: T): void => {
        end();
        if (givenUp) onLate?.(value);
        else resolve(value);
      };
      const fail = (error: Error): void => {
        end();
        reject(error);
      };
      this.#underWay.add(fail);
      onUnderWay?.(() => {
        if (!command.wasSent) fail(new Error('it was withdrawn before it was sent'));
        return !command.wasSent;
      });
      answer.then(settle, fail).catch(fail);
    });
  }
}
