import { slotOf } from '../../../lib/redis/client/cluster-slots.js';
import { type Socket } from '../network/network.js';
import { type Cluster, type View } from './cluster-bus.js';
import { ReplyError } from '../../support/lua/lua.js';
import { Member } from './member.js';
import { type ReceivedScript, type SimServer } from './sim-server.js';
import { HOST, portOf } from './topology.js';

/** A master of a cluster that is back waits this long before it takes commands. */
const REJOIN_MS = 2_000;

/** A node of a cluster: serves the slots that it believes to have, and redirects for the others. */
export class ClusterNode extends Member {
  #rejoinedAt = -Infinity;
  readonly #asking = new WeakSet<Socket>();

  constructor(
    server: SimServer,
    private readonly bus: Cluster,
    /** How it believes the cluster to be. */
    public view: View,
  ) {
    super(server);
  }

  /** A node of the cluster hears what is published at any of them; replicas do not repeat it. */
  override publish(channel: string, message: string, isRepeated: boolean): void {
    if (isRepeated) return;
    super.publish(channel, message, isRepeated);
    this.bus.broadcast(this, channel, message);
  }

  override admit({ keys }: ReceivedScript, socket: Socket): void {
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
      const missing = keys.filter((key) => !this.server.hash(key));
      if (missing.length === 0) return;
      if (missing.length < keys.length) throw new ReplyError('TRYAGAIN Multiple keys request during rehashing of slot');
      throw new ReplyError(`ASK ${slot} ${HOST}:${portOf(migration.target.server)}`);
    }
    if (migration?.target !== this || !isAsking) {
      throw new ReplyError(`MOVED ${slot} ${HOST}:${portOf({ id: owner })}`);
    }
    if (keys.length > 1 && !keys.every((key) => this.server.hash(key))) {
      throw new ReplyError('TRYAGAIN Multiple keys request during rehashing of slot');
    }
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
}
