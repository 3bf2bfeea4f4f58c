import { type Rng, type World } from '../world/world.js';
import { type Hash, type KeyChange, ReplyError, type ScriptRun } from '../../support/lua/lua.js';
import { type Socket } from '../network/network.js';
import { type Answer, type ReceivedScript, type SimServer } from './sim-server.js';

/** One step of a master, as its replicas repeat it: what a script, or the move of a key, has changed and published. */
interface Entry {
  readonly changes: readonly KeyChange[];
  readonly messages: ScriptRun['messages'];
}

interface MasterEnd {
  readonly isUp: boolean;
  readonly entries: readonly Entry[];
  readonly server: { readonly data: ReadonlyMap<string, Hash> };
  onAck(): void;
}

interface ReplicaEnd {
  readonly isUp: boolean;
  load(entries: readonly Entry[], data: ReadonlyMap<string, Hash>): void;
  apply(entry: Entry): void;
}

/** How long a replica takes to get what its master did, in milliseconds; now and then, it falls behind. */
const DELAY_MS = { min: 0.1, max: 3, slow: 0.01, slowMax: 400 };

/** After this time, a replica has confirmed what its master did, unless something is wrong. */
export const MOST_LAG_MS = 2 * DELAY_MS.slowMax;

/** The way from a master to one replica: first in, first out. */
class ReplicaLink {
  /** How many entries of the master the replica has, as far as the master knows. */
  acked = 0;
  /** A master counts only replicas that have all of its data. */
  isOnline = false;
  /** Until when nothing gets through. */
  cutUntil = 0;
  #isClosed = false;
  #lastAt = 0;

  constructor(
    private readonly world: World,
    private readonly rng: Rng,
    private readonly master: MasterEnd,
    private readonly replica: ReplicaEnd,
  ) {}

  /** Sends all that the master has. */
  sync(): void {
    const [entries, data] = [[...this.master.entries], new Map(this.master.server.data)];
    this.#send(() => {
      this.replica.load(entries, data);
      this.#ack(entries.length, true);
    });
  }

  send(entry: Entry, count: number): void {
    this.#send(() => {
      this.replica.apply(entry);
      this.#ack(count);
    });
  }

  /** What is under way is lost. */
  close(): void {
    this.#isClosed = true;
  }

  #send(arrive: () => void): void {
    const { now } = this.world;
    this.#lastAt = Math.max(this.#lastAt, Math.max(now, this.cutUntil) + this.#delay());
    this.world.at(this.#lastAt, null, 'server', () => {
      if (!this.#isClosed && this.replica.isUp) arrive();
    });
  }

  #ack(count: number, isSynced = false): void {
    const at = Math.max(this.world.now, this.cutUntil) + this.#delay();
    this.world.at(at, null, 'server', () => {
      if (this.#isClosed || !this.master.isUp) return;
      if (isSynced) this.isOnline = true;
      this.acked = Math.max(this.acked, count);
      this.master.onAck();
    });
  }

  #delay(): number {
    const { min, max, slow, slowMax } = DELAY_MS;
    return this.rng.chance(slow) ? this.rng.skewed(max, slowMax) : this.rng.float(min, max);
  }
}

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
  /** The connected replicas; `#followers`: all that were configured to follow. */
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

  /** A message also goes to the replicas, and to their subscribers. */
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
