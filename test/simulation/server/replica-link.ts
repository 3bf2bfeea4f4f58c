import { type Rng } from '../world/rng.js';
import { type World } from '../world/world.js';
import { type Hash, type ScriptRun, type KeyChange } from '../../support/lua/lua.js';

/** One step of a master, as its replicas repeat it: what a script, or the move of a key, has changed and published. */
export interface Entry {
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
export class ReplicaLink {
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
