import { type Clock } from '../core/clock.js';
import { LockStoreError } from '../core/lock.errors.js';
import { type Reporter } from '../core/reporter.js';
import { CommandRunner, type ScriptCall } from './command-runner.js';
import { masterOf } from './key-groups.js';
import { type RedisClient, duplicateNode, duplicateRedis, isCluster } from './redis-client.js';
import { type IsThere } from './sentinel-watch.js';

export interface ReplicaAcksOptions {
  readonly minReplicas: number;
  readonly replicaTimeoutMs: number;
  readonly clock: Clock;
  readonly reporter: Reporter;
}

/** What WAIT may take on top of its own time-out. */
const ROUND_TRIP_MS = 1_000;

/**
 * Proves that grants have reached replicas (WAIT, Redis docs). WAIT speaks of what its own connection wrote, and holds up
 * all that is sent there after it. So it has connections of its own, one per master, on which a grant is written once
 * more: the same acquire, sent again.
 */
export class ReplicaAcks {
  readonly #connections = new Map<string, AckConnection>();

  constructor(
    private readonly client: () => RedisClient,
    private readonly options: ReplicaAcksOptions,
  ) {}

  /**
   * Sends an acquire again and gives its reply, a grant only if enough replicas have it.
   * @throws LockStoreError that says how many have it
   */
  confirm(call: ScriptCall): Promise<string[]> {
    return this.#connectionFor(call).confirm(call);
  }

  /** Behind Sentinel: leaves the old master. */
  move(isThere: IsThere): void {
    for (const { commands } of this.#connections.values()) commands.move(isThere, () => undefined);
  }

  async close(): Promise<void> {
    await Promise.all([...this.#connections.values()].map((connection) => connection.commands.close()));
  }

  #connectionFor({ key, operands }: ScriptCall): AckConnection {
    const client = this.client();
    if (!isCluster(client)) return this.#connections.get('') ?? this.#open('', duplicateRedis(client));
    const master = masterOf(client, String(operands[1]));
    if (!master) throw new LockStoreError(`The master for the lock "${key}" is not known yet. Try again.`, { key });
    const address = `${master.options.host}:${master.options.port}`;
    return this.#connections.get(address) ?? this.#open(address, duplicateNode(master));
  }

  #open(address: string, client: Client): AckConnection {
    const connection = new AckConnection(client, this.options);
    client.once('end', () => this.#connections.delete(address));
    this.#connections.set(address, connection);
    return connection;
  }
}

type Client = ReturnType<typeof duplicateRedis>;

class AckConnection {
  readonly commands: CommandRunner;
  #underWay: Promise<unknown> = Promise.resolve();
  #next: Promise<number> | null = null;

  constructor(
    private readonly client: Client,
    private readonly options: ReplicaAcksOptions,
  ) {
    this.commands = new CommandRunner(client, true, options.clock, options.reporter);
  }

  async confirm(call: ScriptCall): Promise<string[]> {
    const { epoch } = this.commands;
    const reply = await this.commands.run(call);
    if (reply[0] !== 'granted') return reply;
    const { key } = call;
    const { minReplicas } = this.options;
    const acks = await this.#acks(key);
    // A new connection has written nothing: there WAIT counts all replicas at once.
    if (this.commands.epoch !== epoch) {
      throw new LockStoreError(`The connection was lost while replicas confirmed the lock "${key}".`, { key });
    }
    if (acks >= minReplicas) return reply;
    const text = `Only ${acks} of ${minReplicas} replicas confirmed the lock "${key}" within \`replicaTimeoutMs\`; it was`;
    throw new LockStoreError(`${text} given back. Check the replication, or lower \`minReplicas\`.`, { key });
  }

  /** One WAIT at a time: those who wrote while one was under way share the next. */
  #acks(key: string): Promise<number> {
    this.#next ??= this.#underWay.then(() => {
      this.#next = null;
      const { minReplicas, replicaTimeoutMs } = this.options;
      const timeoutMs = replicaTimeoutMs + ROUND_TRIP_MS;
      const wait = () => this.client.wait(minReplicas, replicaTimeoutMs);
      const acks = this.commands.ask(this.client, wait, { key, timeoutMs });
      this.#underWay = acks.catch(() => undefined);
      return acks;
    });
    return this.#next;
  }
}
