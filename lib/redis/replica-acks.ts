import { AsyncLocalStorage } from 'node:async_hooks';
import { type Clock } from '../core/clock.js';
import { LockStoreError } from '../core/lock.errors.js';
import { type Reporter } from '../core/reporter.js';
import { type ClusterClient, type RedisClient } from './client/cluster.js';
import { type LeadsToMaster, type SingleClient } from './client/redis-client.js';
import { type ServerAddress, addressText } from './client/server-address.js';
import { type ScriptCall } from './connection/command.js';
import { Connection } from './connection/connection.js';
import { readRedirect } from './connection/redis-errors.js';
import { MAX_REDIRECTS, WAIT_ROUND_TRIP_MS } from './timing.js';

interface ReplicaAcksOptions {
  readonly minReplicas: number;
  readonly replicaTimeoutMs: number;
  readonly durable?: 'aof' | undefined;
  readonly clock: Clock;
  readonly reporter: Reporter;
}

/** The place of the connection outside a cluster. */
const ONLY_MASTER = 'the master';

/**
 * Proves that grants have reached replicas (WAIT, Redis docs), or disks (WAITAOF). Both cover the writes of their connection, and block
 * later commands on it. Therefore this class has separate connections, one per master. It sends the same acquire, or
 * adoption, once more there, which writes the grant again.
 */
export class ReplicaAcks {
  readonly #connections = new Map<string, AckConnection>();

  readonly #inOurContext = AsyncLocalStorage.snapshot();
  #isClosed = false;

  constructor(
    private readonly client: RedisClient,
    private readonly options: ReplicaAcksOptions,
  ) {}

  /**
   * Sends an acquire or an adoption again and resolves with its reply; with a grant only if enough replicas have it.
   * @throws LockStoreError with the number of replicas that have it
   */
  async confirm(call: ScriptCall): Promise<string[]> {
    const { client } = this;
    // Nothing would close a connection that is opened now.
    if (this.#isClosed)
      throw new LockStoreError(`The connection was closed before the lock "${call.key}" was confirmed.`, {
        key: call.key,
      });
    if (client.isCluster) return this.#confirmOnNode(client, call);
    const connection = this.#connections.get(ONLY_MASTER) ?? this.#open(ONLY_MASTER, () => client.duplicate())!;
    return connection.confirm(call);
  }

  /** Behind Sentinel: leaves the old master. */
  move(leadsToMaster: LeadsToMaster): void {
    for (const { commands } of this.#connections.values()) commands.move(leadsToMaster, () => undefined);
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    await Promise.all([...this.#connections.values()].map((connection) => connection.commands.close()));
  }

  /** Follows the redirections to the slot: the cluster client's view may be outdated, or the slot may be moving. */
  async #confirmOnNode(cluster: ClusterClient, call: ScriptCall): Promise<string[]> {
    let address = cluster.masterAddressOf(String(call.operands[1]));
    let asking = false;
    for (let redirects = 0; ; redirects++) {
      const node = address && this.#nodeAt(cluster, address);
      if (!node) throw unknownMasterError(call);
      try {
        return await node.confirm({ ...call, asking });
      } catch (error) {
        const redirect = readRedirect((error as Error).cause, address!);
        if (!redirect || redirects === MAX_REDIRECTS) throw error;
        address = cluster.reachedBy(redirect.address);
        asking = redirect.isAsk;
      }
    }
  }

  #nodeAt(cluster: ClusterClient, address: ServerAddress): AckConnection | null {
    const name = addressText(address);
    return this.#connections.get(name) ?? this.#open(name, () => cluster.openNode(address));
  }

  #open(place: string, connect: () => SingleClient | null): AckConnection | null {
    const client = this.#inOurContext(connect);
    if (!client) return null;
    const connection = this.#inOurContext(() => new AckConnection(client, this.options));
    if (client.endsForGood) client.once('ended', () => this.#connections.delete(place));
    this.#connections.set(place, connection);
    return connection;
  }
}

const unknownMasterError = ({ key }: ScriptCall) =>
  new LockStoreError(`The master for the lock "${key}" is not known yet. Try again.`, { key });

/** The outcomes that replicas confirm. */
const GRANTED = ['granted', 'adopted'];

/** A command that waits for its confirmation. */
interface Unconfirmed {
  readonly call: ScriptCall;
  confirm(reply: string[]): void;
  fail(error: unknown): void;
}

/** Nothing is sent after a WAIT: acquires that arrive during one belong to the next batch. */
class AckConnection {
  readonly commands: Connection;
  readonly #inOurContext = AsyncLocalStorage.snapshot();
  #unconfirmed: Unconfirmed[] = [];
  #isBusy = false;

  constructor(
    client: SingleClient,
    private readonly options: ReplicaAcksOptions,
  ) {
    this.commands = new Connection(client, options.clock, options.reporter);
  }

  confirm(call: ScriptCall): Promise<string[]> {
    return new Promise((confirm, fail) => {
      this.#unconfirmed.push({ call, confirm, fail });
      if (!this.#isBusy) this.#inOurContext(() => void this.#confirmAll());
    });
  }

  async #confirmAll(): Promise<void> {
    this.#isBusy = true;
    while (this.#unconfirmed.length > 0) await this.#confirmBatch(this.#unconfirmed.splice(0));
    this.#isBusy = false;
  }

  /** All acquires are written, then one WAIT proves them all. */
  async #confirmBatch(batch: readonly Unconfirmed[]): Promise<void> {
    const { epoch } = this.commands;
    const granted: { readonly one: Unconfirmed; readonly reply: string[] }[] = [];
    const write = async (one: Unconfirmed): Promise<void> => {
      const reply = await this.commands.run(one.call);
      if (GRANTED.includes(reply[0]!)) granted.push({ one, reply });
      else one.confirm(reply);
    };
    await Promise.all(batch.map((one) => write(one).catch((error: unknown) => one.fail(error))));
    if (granted.length === 0) return;
    const acks = await this.#acks(granted[0]!.one.call).catch((error: LockStoreError) => error);
    for (const { one, reply } of granted) {
      const error = this.#errorOf(one.call.key, acks, epoch);
      if (error) one.fail(error);
      else one.confirm(reply);
    }
  }

  /** How many replicas have it; less than none if our own server does not have it on its disk. */
  #acks({ key }: ScriptCall): Promise<number> {
    const { minReplicas, replicaTimeoutMs, durable } = this.options;
    const client = this.commands.liveClient() as SingleClient;
    const waitForDisk = async (): Promise<number> => {
      const words = ['WAITAOF', '1', String(minReplicas), String(replicaTimeoutMs)] as const;
      const [ownDisk, disks = 0] = ((await client.call(words)) as unknown[]).map(Number);
      return ownDisk === 1 ? disks : -1;
    };
    const wait = durable ? waitForDisk : () => client.wait(minReplicas, replicaTimeoutMs);
    return this.commands.send(wait, { subject: key, timeoutMs: replicaTimeoutMs + WAIT_ROUND_TRIP_MS });
  }

  #errorOf(key: string, acks: number | LockStoreError, epoch: number): LockStoreError | null {
    const { minReplicas, durable } = this.options;
    if (typeof acks !== 'number') {
      const who = durable ? 'The disk' : 'Replicas';
      const { cause, retryable } = acks;
      const text = `${who} did not confirm the lock "${key}": ${(cause as Error).message}. It was given back.`;
      return new LockStoreError(text, { key, cause: acks, retryable });
    }
    // A new connection has no writes: there, WAIT counts all replicas at once.
    if (this.commands.epoch !== epoch) {
      return new LockStoreError(`The connection was lost while replicas confirmed the lock "${key}".`, { key });
    }
    if (acks >= minReplicas) return null;
    if (acks < 0) {
      const text = `The disk did not confirm the lock "${key}" within \`replicaTimeoutMs\`; it was given back. Check \`appendfsync\`,`;
      return new LockStoreError(
        `${text} or raise \`replicaTimeoutMs\`: with everysec, a confirmation takes up to a second.`,
        { key },
      );
    }
    const text = `Only ${acks} of ${minReplicas} replicas confirmed the lock "${key}" within \`replicaTimeoutMs\`; it was`;
    return new LockStoreError(`${text} given back. Check the replication, or lower \`minReplicas\`.`, { key });
  }
}
