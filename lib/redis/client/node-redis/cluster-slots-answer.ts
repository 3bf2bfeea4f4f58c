import { type ServerAddress, namedBy } from '../server-address.js';

/** Which master serves some slots, and its replicas, by the addresses that they announce. */
export interface Shard {
  readonly from: number;
  readonly to: number;
  readonly master: ServerAddress;
  readonly replicas: readonly ServerAddress[];
}

/** Reads the answer to CLUSTER SLOTS of the node that was `asked`. */
export function readShards(answer: unknown, asked: ServerAddress): Shard[] {
  const shards = listOf(answer).map((shard): Shard => {
    const [from, to, master, ...replicas] = listOf(shard);
    if (!isSlot(from) || !isSlot(to)) throw malformed();
    return {
      from,
      to,
      master: readNode(master, asked),
      replicas: replicas.map((node) => readNode(node, asked)),
    };
  });
  if (shards.length === 0) throw new Error('CLUSTERDOWN the node knows of no slots');
  return shards;
}

function readNode(node: unknown, asked: ServerAddress): ServerAddress {
  const [host, port] = listOf(node);
  if ((host !== null && typeof host !== 'string') || !Number.isSafeInteger(port)) throw malformed();
  return { host: namedBy(asked, host), port: port as number };
}

function listOf(value: unknown): readonly unknown[] {
  if (!Array.isArray(value)) throw malformed();
  return value;
}

const isSlot = (value: unknown): value is number =>
  Number.isSafeInteger(value) && (value as number) >= 0 && (value as number) < 16_384;

const malformed = (): Error => new Error('the answer to CLUSTER SLOTS is no list of slots');
