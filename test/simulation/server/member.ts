import { type Socket } from '../network/socket.js';
import { type Hash, ReplyError } from '../../support/lua/lua.js';
import { type Entry, ReplicaLink } from './replica-link.js';
import { type Answer, type ReceivedScript, type SimServer } from './sim-server.js';

/** A client that waits for replicas. */
interface Waiting {
  readonly socket: Socket;
  readonly offset: number;
  readonly replicas: number;
  readonly answer: Answer;
  isOver: boolean;
}

const UNBLOCKED = 'UNBLOCKED force unblock from blocking operation, instance state changed (master -> replica?)';

/** What a server is among others: a master with its replicas, or a replica. */
export class Member {
  /** All that made up its data, in order. */
  entries: Entry[] = [];
  /** Whom it follows; null for a master. */
  master: Member | null = null;
  /** The replicas that are connected; and all that were told to follow. */
  readonly links = new Map<Member, ReplicaLink>();
  readonly #followers = new Set<Member>();
  readonly #offsets = new WeakMap<Socket, number>();
  readonly #waiting = new Set<Waiting>();

  constructor(readonly server: SimServer) {
    server.member = this;
  }

  get isReplica(): boolean {
    return this.master !== null;
  }

  get isUp(): boolean {
    return this.server.reach === 'accepts';
  }

  /** A message goes to the replicas, too, and to those who listen there. */
  publish(channel: string, message: string, _isRepeated: boolean): void {
    this.server.subscriptions.publish(channel, message);
  }

  /** Throws the error with which the server refuses a script by its keys. */
  admit(_script: ReceivedScript, _socket: Socket): void {
    // A server without slots takes all keys.
  }

  /** Further commands; undefined for one that it does not know. */
  command(_socket: Socket, _name: string, _args: readonly unknown[]): unknown {
    return undefined;
  }

  onCommand(socket: Socket): void {
    this.#offsets.set(socket, this.entries.length);
  }

  /** WAIT: counts the replicas that have all that was done until the last command of the connection. */
  wait(socket: Socket, [replicas, timeoutMs]: readonly unknown[], answer: Answer): void {
    if (this.isReplica) {
      return answer(undefined, new ReplyError('ERR WAIT cannot be used with replica instances.'));
    }
    const offset = this.#offsets.get(socket) ?? 0;
    const one: Waiting = { socket, offset, replicas: Number(replicas), answer, isOver: false };
    if (this.#acks(offset) >= one.replicas) return answer(this.#acks(offset));
    this.#waiting.add(one);
    this.server.block(socket);
    this.server.world.after(Number(timeoutMs), null, 'server', () => this.#endWait(one));
  }

  /** Changes keys without a script. */
  write(changes: Entry['changes']): void {
    this.server.change(changes);
    this.record({ changes, messages: [] });
  }

  /** Appends to the data, and sends to the replicas. */
  record(entry: Entry): void {
    const count = this.entries.push(entry);
    for (const link of this.links.values()) link.send(entry, count);
  }

  onAck(): void {
    for (const one of this.#waiting) if (this.#acks(one.offset) >= one.replicas) this.#endWait(one);
  }

  /** On a replica: does what the master did. */
  apply(entry: Entry): void {
    this.entries.push(entry);
    this.server.change(entry.changes);
    for (const [channel, message] of entry.messages) this.publish(channel, message, true);
  }

  /** On a replica: takes over all data of its master, or repeats only what is new. */
  load(entries: readonly Entry[], data: ReadonlyMap<string, Hash>): void {
    const { length } = this.entries;
    const isPrefix = length <= entries.length && this.entries.at(-1) === entries[length - 1];
    if (isPrefix) {
      for (const entry of entries.slice(length)) this.apply(entry);
      return;
    }
    this.entries = [...entries];
    this.server.data = new Map(data);
  }

  promote(): void {
    this.#leaveMaster();
    this.master = null;
  }

  follow(master: Member): void {
    this.#leaveMaster();
    this.master = master;
    for (const link of this.links.values()) link.close();
    this.links.clear();
    for (const one of this.#waiting) this.#endWait(one, new ReplyError(UNBLOCKED));
    master.#followers.add(this);
    master.attach(this);
  }

  #leaveMaster(): void {
    this.master?.detach(this);
    if (this.master) this.master.#followers.delete(this);
  }

  attach(replica: Member): void {
    this.detach(replica);
    if (!this.isUp || !replica.isUp) return;
    const link = new ReplicaLink(this.server.world, this.server.rng, this, replica);
    this.links.set(replica, link);
    link.sync();
  }

  detach(replica: Member): void {
    this.links.get(replica)?.close();
    this.links.delete(replica);
  }

  /** The server has died. */
  onDown(): void {
    this.#waiting.clear();
    for (const link of this.links.values()) link.close();
    this.links.clear();
    this.master?.detach(this);
  }

  /** The server is back. */
  onUp(): void {
    this.master?.attach(this);
    for (const replica of this.#followers) this.attach(replica);
  }

  #acks(offset: number): number {
    return [...this.links.values()].filter(({ isOnline, acked }) => isOnline && acked >= offset).length;
  }

  #endWait(one: Waiting, error?: Error): void {
    if (one.isOver) return;
    one.isOver = true;
    if (!this.#waiting.delete(one)) return;
    if (error) one.answer(undefined, error);
    else one.answer(this.#acks(one.offset));
    this.server.unblock(one.socket);
    if (error) one.socket.closeServer(true);
  }
}
