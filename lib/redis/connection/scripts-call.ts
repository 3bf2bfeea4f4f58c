import { LockStoreError } from '../../core/lock.errors.js';
import { type Outcome } from '../../core/store/callback-store.js';
import { type Subject, forSubject, keyOfSubject } from '../../core/store/subject.js';
import { type Operands, type RedisClient, type SingleClient } from '../client/redis-client.js';
import { type LuaScript } from '../scripts/lua.js';
import { type Destination } from './cluster-nodes.js';
import { type CommandRequest, type Delivery, type Withdrawable } from './command.js';
import { type ConnectionHealth } from './connection-health.js';
import { type LiveClient } from './live-client.js';
import { isNoScript } from './redis-errors.js';
import { hasWritten } from './reply-reader.js';

type AnyScript = LuaScript<any, any, any>;

/** A script to send. */
export interface Script {
  readonly script: AnyScript;
  readonly operands: Operands;
  /** Whether to send ASKING first: a node to which the slot is moving serves no other command. */
  readonly asking?: boolean;
}

/** A script that answers for one lock or several; `storageKey` is that of one of them. */
export interface ScriptsCall extends Pick<CommandRequest<string[][]>, 'subject' | 'timeoutMs' | 'onLate' | 'onStart'> {
  readonly storageKey: string;
  /** Is asked when there is a connection, and each time that it is sent. */
  toSend(): Script;
  /** The reply as lists; undefined if it belongs to another command. */
  read(reply: unknown): string[][] | undefined;
}

/** Undefined: the reply of another command came. */
type Replies = string[][] | undefined;

/** A script on its way. */
export class SendingScripts
  implements CommandRequest<Replies>, Delivery<unknown, Replies>, Outcome<Replies, LockStoreError>
{
  #isKnown = true;

  constructor(
    private readonly call: ScriptsCall,
    private readonly outcome: Outcome<string[][], Error>,
    private readonly live: LiveClient,
    private readonly health: ConnectionHealth,
  ) {}

  get subject(): Subject {
    return this.call.subject;
  }

  get storageKey(): string {
    return this.call.storageKey;
  }

  get timeoutMs(): number {
    return this.call.timeoutMs;
  }

  onStart(command: Withdrawable): void {
    this.call.onStart?.(command);
  }

  onLate(replies: Replies): void {
    if (replies) this.call.onLate?.(replies);
  }

  clientNow(): RedisClient {
    return this.live.current;
  }

  /** EVALSHA, or EVAL where the server does not know the script. */
  send(client: RedisClient): Promise<unknown> {
    const { script, operands, asking } = this.call.toSend();
    if (asking) (client as SingleClient).asking();
    return this.#isKnown ? client.evaluateSha(script.sha1, operands) : client.evaluate(script.text, operands);
  }

  changesAfter(error: Error): boolean {
    if (!isNoScript(error)) return false;
    this.#isKnown = false;
    return true;
  }

  read(reply: unknown, sentBy: RedisClient, sentTo: Destination): Replies {
    const replies = this.call.read(reply);
    if (!replies) this.health.replace(sentBy, sentTo);
    else if (replies.some(hasWritten)) this.health.onWritten(sentBy);
    return replies;
  }

  resolve(replies: Replies): void {
    if (replies) return this.outcome.resolve(replies);
    const { subject } = this;
    const text = `Redis sent the reply of another command ${forSubject(subject)}.`;
    this.reject(new LockStoreError(text, { key: keyOfSubject(subject) }));
  }

  reject(error: LockStoreError): void {
    this.outcome.reject(error);
  }
}
