import { type MemoryLock } from '../../support/model/memory-lock.js';
import { type ModelServer, READ_ONLY, type Reply, type ScriptModel } from '../../support/model/script-model.js';
import { type ScriptCall } from './server-scripts.js';

/** A script that a master ran: enough to repeat it on a replica, which then has the same data. */
export interface Write {
  readonly call: ScriptCall;
  readonly micros: number;
  /** How many listened, each time that the script asked. */
  readonly heard: readonly number[];
  readonly reply: string;
}

export type NewScripts = (server: ModelServer) => ScriptModel;

/** Who runs the scripts of a dataset now. */
export interface DatasetOwner {
  readonly micros: number;
  readonly isReplica: boolean;
  listeners(channel: string): number;
  /** Sends a message to those who listen. `isRepeated`: a master has sent it before. */
  publish(channel: string, message: string, isRepeated: boolean): void;
}

/** The locks of one server, or of one slot of a cluster, with all that made them so. */
export class Dataset {
  readonly writes: Write[] = [];
  readonly model: ScriptModel;
  #heard: number[] = [];
  #repeated: Write | null = null;

  constructor(
    public owner: DatasetOwner,
    newScripts: NewScripts,
  ) {
    this.model = newScripts({
      micros: () => this.#repeated?.micros ?? this.owner.micros,
      subscribers: (channel) => this.#subscribers(channel),
      publish: (channel, message) => this.owner.publish(channel, message, this.#repeated !== null),
    });
  }

  lock(storageKey: string): MemoryLock {
    return this.model.locks.lock(storageKey);
  }

  /** Whether nothing but some of the first of these writes made it so. */
  isMadeBy(writes: readonly Write[], count: number): boolean {
    const { length } = this.writes;
    return length <= count && this.writes.at(-1) === writes[length - 1];
  }

  run(call: ScriptCall): { readonly reply: Reply; readonly write: Write } {
    this.#heard = [];
    const { micros, isReplica } = this.owner;
    // A replica runs a script up to its first write, as Redis does.
    if (isReplica) this.model.refusesWrites = READ_ONLY;
    const reply = this.model.run(call.name, call.values);
    const write = { call, micros, heard: this.#heard, reply: reply.join(' ') };
    this.writes.push(write);
    return { reply, write };
  }

  /** Does on a replica what the master did. */
  repeat(write: Write): void {
    this.#repeated = write;
    this.#heard = [...write.heard];
    this.model.isFull = false;
    this.model.refusesWrites = undefined;
    const reply = this.model.run(write.call.name, write.call.values).join(' ');
    this.#repeated = null;
    this.writes.push(write);
    if (reply !== write.reply) throw new Error(`A replica differs from its master: ${reply}, not ${write.reply}.`);
  }

  #subscribers(channel: string): number {
    if (this.#repeated) return this.#heard.shift()!;
    const count = this.owner.listeners(channel);
    this.#heard.push(count);
    return count;
  }
}
