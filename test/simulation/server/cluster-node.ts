import { slotOf } from '../../../lib/redis/client/cluster-slots.js';
import { type Reply } from '../../support/model/script-model.js';
import { type Socket } from '../network/socket.js';
import { type Cluster, type View } from './cluster-view.js';
import { type Dataset, type NewScripts } from './dataset.js';
import { Member } from './member.js';
import { ReplyError, type ScriptCall } from './server-scripts.js';
import { type SimServer } from './sim-server.js';
import { HOST, portOf } from './topology.js';

/** A master of a cluster that is back waits this long before it takes commands. */
const REJOIN_MS = 2_000;

/** A node of a cluster: serves the slots that it believes to have, and redirects for the others. */
export class ClusterNode extends Member {
  #rejoinedAt = -Infinity;
  readonly #asking = new WeakSet<Socket>();

  constructor(
    server: SimServer,
    newScripts: NewScripts,
    private readonly bus: Cluster,
    /** How it believes the cluster to be. */
    public view: View,
  ) {
    super(server, newScripts);
  }

  override slotOf(storageKey: string): number {
    return slotOf(storageKey);
  }

  /** A node of the cluster hears what is published at any of them; replicas do not repeat it. */
  override publish(channel: string, message: string, isRepeated: boolean): void {
    if (isRepeated) return;
    super.publish(channel, message, isRepeated);
    this.bus.broadcast(this, channel, message);
  }

  override admit({ keys }: ScriptCall, socket: Socket): void {
    const isAsking = this.#asking.delete(socket);
    const slot = slotOf(keys[0]!);
    if (keys.some((key) => slotOf(key) !== slot)) {
      throw new ReplyError("CROSSSLOT Keys in request don't hash to the same slot");
    }
    if (this.server.world.now < this.#rejoinedAt + REJOIN_MS) throw new ReplyError('CLUSTERDOWN The cluster is down');
    const owner = this.bus.ownerOf(slot, this.view);
    const migration = this.bus.migrations.get(slot);
    if (owner === this.server.id) {
      if (migration?.source !== this) return;
      const missing = keys.filter((key) => migration.isMissing(key));
      if (missing.length === 0) return;
      if (missing.length < keys.length) throw new ReplyError('TRYAGAIN Multiple keys request during rehashing of slot');
      throw new ReplyError(`ASK ${slot} ${HOST}:${portOf(migration.target.server)}`);
    }
    if (migration?.target !== this || !isAsking) {
      throw new ReplyError(`MOVED ${slot} ${HOST}:${portOf({ id: owner })}`);
    }
    if (keys.length > 1 && !keys.every((key) => migration.moved.has(key))) {
      throw new ReplyError('TRYAGAIN Multiple keys request during rehashing of slot');
    }
    for (const key of keys) migration.moved.add(key);
  }

  override run(call: ScriptCall): Reply {
    const reply = super.run(call);
    const slot = slotOf(call.keys[0]!);
    // Its replicas do not know the slot yet.
    if (this.bus.migrations.get(slot)?.target === this) this.adopt(slot, this.dataOf(slot));
    return reply;
  }

  override command(socket: Socket, name: string, args: readonly unknown[]): unknown {
    if (name === 'asking') this.#asking.add(socket);
    if (['asking', 'readonly', 'readwrite'].includes(name)) return 'OK';
    if (name !== 'cluster') return undefined;
    return String(args[0]).toLowerCase() === 'slots' ? this.bus.rangesOf(this.view) : 'cluster_state:ok\r\n';
  }

  override onUp(): void {
    if (!this.isReplica) this.#rejoinedAt = this.server.world.now;
    super.onUp();
    this.bus.onUp(this);
  }

  /** The whole data of a slot comes from another master. */
  adopt(slot: number, dataset: Dataset): void {
    this.record({ slot, adopted: dataset.writes, count: dataset.writes.length });
  }

  drop(slot: number): void {
    this.data.delete(slot);
    this.record({ slot, isDropped: true });
  }

  protected override recordScript(entry: Parameters<Member['record']>[0]): void {
    const isForeign = this.bus.migrations.get(entry.slot)?.target === this;
    if (!isForeign) super.recordScript(entry);
  }

  override dataOf(slot: number): Dataset {
    const migration = this.bus.migrations.get(slot);
    return migration?.target === this ? migration.source.dataOf(slot) : super.dataOf(slot);
  }
}
