import { type MemoryLock } from '../../support/model/memory-lock.js';
import { type Reply, type ScriptModel } from '../../support/model/script-model.js';
import { type Socket } from '../network/socket.js';
import { Dataset, type DatasetOwner, type NewScripts, type Write } from './dataset.js';
import { type Entry, ReplicaLink } from './replica-link.js';
import { ReplyError, type ScriptCall } from './server-scripts.js';
import { type Answer, type SimServer } from './sim-server.js';

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
export class Member implements DatasetOwner {
  /** All that made up its data, in order. */
  entries: Entry[] = [];
  data = new Map<number, Dataset>();
  /** Whom it follows; null for a master. */
  master: Member | null = null;
  /** The replicas that are connected; and all that were told to follow. */
  readonly links = new Map<Member, ReplicaLink>();
  readonly #followers = new Set<Member>();
  readonly #offsets = new WeakMap<Socket, number>();
  readonly #waiting = new Set<Waiting>();

  constructor(
    readonly server: SimServer,
    private readonly newScripts: NewScripts,
  ) {
    server.member = this;
  }

  get isReplica(): boolean {
    return this.master !== null;
  }

  get isUp(): boolean {
    return this.server.reach === 'accepts';
  }

  get micros(): number {
    return this.server.micros;
  }

  listeners(channel: string): number {
    return this.server.subscriptions.count(channel);
  }

  /** A message goes to the replicas, too, and to those who listen there. */
  publish(channel: string, message: string, _isRepeated: boolean): void {
    this.server.subscriptions.publish(channel, message);
  }

  lock(storageKey: string): MemoryLock {
    return this.dataOf(this.slotOf(storageKey)).lock(storageKey);
  }

  get keys(): readonly string[] {
    return [...this.data.values()].flatMap(({ model }) => model.locks.keys);
  }

  /** Throws the error with which the server refuses a script by its keys. */
  admit(_call: ScriptCall, _socket: Socket): void {
    // A server without slots takes all keys.
  }

  /** What runs a script. */
  modelFor({ keys }: ScriptCall): ScriptModel {
    return this.dataOf(this.slotOf(keys[0]!)).model;
  }

  run(call: ScriptCall): Reply {
    const slot = this.slotOf(call.keys[0]!);
    const dataset = this.dataOf(slot);
    dataset.owner = this;
    if (call.name === 'inspect') return dataset.model.run(call.name, call.values);
    const { reply, write } = dataset.run(call);
    this.recordScript({ slot, write });
    return reply;
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

  /** Appends to the data, and sends to the replicas. */
  record(entry: Entry): void {
    const count = this.entries.push(entry);
    for (const link of this.links.values()) link.send(entry, count);
  }

  protected recordScript(entry: Entry): void {
    this.record(entry);
  }

  onAck(): void {
    for (const one of this.#waiting) if (this.#acks(one.offset) >= one.replicas) this.#endWait(one);
  }

  /** On a replica: does what the master did. */
  apply(entry: Entry): void {
    this.entries.push(entry);
    if ('isDropped' in entry) this.data.delete(entry.slot);
    else if ('adopted' in entry) this.#adopt(entry.slot, entry.adopted, entry.count);
    else this.dataOf(entry.slot).repeat(entry.write);
  }

  /** On a replica: takes over all data of its master, or only what is new. */
  load(entries: readonly Entry[]): void {
    const { length } = this.entries;
    const isPrefix = length <= entries.length && this.entries.at(-1) === entries[length - 1];
    if (!isPrefix) {
      this.entries = [];
      this.data = new Map();
    }
    for (const entry of entries.slice(this.entries.length)) this.apply(entry);
  }

  /** Takes over the data that the first writes made, or only what is new. */
  #adopt(slot: number, writes: readonly Write[], count: number): void {
    const known = this.data.get(slot);
    const copy = known?.isMadeBy(writes, count) ? known : new Dataset(this, this.newScripts);
    this.data.set(slot, copy);
    for (let i = copy.writes.length; i < count; i += 1) copy.repeat(writes[i]!);
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

  /** Where a key is stored; a single server has one place for all. */
  slotOf(_storageKey: string): number {
    return 0;
  }

  dataOf(slot: number): Dataset {
    const known = this.data.get(slot) ?? new Dataset(this, this.newScripts);
    this.data.set(slot, known);
    return known;
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
