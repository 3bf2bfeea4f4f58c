import { type Randomness } from '../../../core/randomness.js';
import { NODE_INFO_TIMEOUT_MS } from '../../timing.js';
import { type ClientParts } from '../client-library.js';
import { type ServerAddress } from '../server-address.js';
import { type Shard, readShards } from './cluster-slots-answer.js';
import { askOnce, firstAnswer } from './first-answer.js';
import { type ConnectionPlan, type OwnConnection } from './own-connection.js';

interface SlotsQuestion {
  /** Known nodes of the cluster. */
  readonly addresses: readonly ServerAddress[];
  readonly nodeAt: (at: ServerAddress) => OwnConnection | undefined;
  readonly planOf: (at: ServerAddress) => ConnectionPlan;
  readonly parts: ClientParts;
  readonly signal: AbortSignal;
  readonly onFailure: (at: ServerAddress) => void;
}

const SLOTS = ['cluster', 'slots'] as const;

/** Asks a node which one serves which slot: at random, because one that has lost the others answers, too, as if all were as before. */
export function askForSlots(question: SlotsQuestion): Promise<Shard[]> {
  const { addresses, nodeAt, planOf, parts, signal, onFailure } = question;
  return firstAnswer({
    candidates: shuffled(addresses, parts.random),
    ask: async (at, stop) => {
      const node = nodeAt(at);
      const isOpen = node?.isWritable === true;
      return readShards(isOpen ? await node.send(SLOTS) : await askOnce(planOf(at), parts, SLOTS, stop), at);
    },
    patienceMs: NODE_INFO_TIMEOUT_MS,
    limitMs: planOf(addresses[0]!).connectTimeout + NODE_INFO_TIMEOUT_MS,
    clock: parts.clock,
    signal,
    onFailure,
  });
}

function shuffled<T>(values: readonly T[], random: Randomness): T[] {
  const order = values.map((value) => ({ value, at: random.fraction() }));
  return order.toSorted((a, b) => a.at - b.at).map(({ value }) => value);
}
