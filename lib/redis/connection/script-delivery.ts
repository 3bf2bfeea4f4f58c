import { LockStoreError } from '../../core/lock.errors.js';
import { type Outcome } from '../../core/store/callback-store.js';
import { forSubject, keyOfSubject } from '../../core/store/subject.js';
import { type Operands, type RedisClient, type SingleClient } from '../client/redis-client.js';
import { type LuaScript } from '../scripts/lock-scripts.js';
import { type Destination } from './cluster-nodes.js';
import { type CommandHost, type CommandRequest, type Delivery } from './command.js';
import { isNoScript, renamedError } from './redis-errors.js';
import { isGrant } from './reply-reader.js';

/** A script to send. */
export interface Script {
  readonly script: LuaScript;
  readonly operands: Operands;
  /** Whether to send ASKING first: a node to which the slot is moving serves no other command. */
  readonly asking?: boolean;
}

/** A script that answers for one lock or several; `storageKey` is that of one of them. */
export interface BatchCall extends CommandRequest {
  readonly storageKey: string;
  /** Is asked when there is a connection, and each time that it is sent. */
  toSend(): Script;
  /** The reply as lists; undefined if it belongs to another command. */
  read(reply: unknown): string[][] | undefined;
  /** Receives the replies that come after the timeout. */
  onLate?(replies: string[][]): void;
}

/** Undefined: the reply of another command came. */
type Replies = string[][] | undefined;

/** Delivers the scripts of a call. */
export class ScriptDelivery implements Delivery<unknown, Replies>, Outcome<Replies, LockStoreError> {
  /** Whether the server knows the script, as far as it has said. */
  #isKnown = true;

  constructor(
    private readonly call: BatchCall,
    private readonly outcome: Outcome<string[][], Error>,
    private readonly host: CommandHost,
  ) {}

  clientNow(): RedisClient {
    return this.host.live.current;
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
    if (!replies) this.host.health.replace(sentBy, sentTo);
    if (replies?.some(isGrant)) this.#checkGrant(sentBy);
    return replies;
  }

  /** The server may have become unsafe since its connection began, and the connection may be in another database than its own. */
  #checkGrant(sentBy: RedisClient): void {
    const { live } = this.host;
    const key = keyOfSubject(this.call.subject) ?? '';
    const refusal = this.host.refusal(key);
    if (refusal) throw renamedError(refusal, key, true);
    if (sentBy.isCluster || live.isInDatabase(sentBy)) return;
    throw live.refusedDatabase ?? new Error('the answer may come from another database');
  }

  onLate(replies: Replies): void {
    if (replies) this.call.onLate?.(replies);
  }

  resolve(replies: Replies): void {
    if (replies) return this.outcome.resolve(replies);
    const { subject } = this.call;
    const text = `Redis sent the reply of another command ${forSubject(subject)}.`;
    this.reject(new LockStoreError(text, { key: keyOfSubject(subject) }));
  }

  reject(error: LockStoreError): void {
    this.outcome.reject(error);
  }
}
