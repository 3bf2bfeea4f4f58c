import { setTimeout as sleep } from 'node:timers/promises';
import { LockStoreError } from '../../core/lock.errors.js';
import { systemRandomness } from '../../core/randomness.js';
import { type WakeUp } from '../../core/store/lock-store.js';
import { type RedisConnection } from '../../redis/client/redis-connection.js';
import { type RedisClient, type SingleClient } from '../../redis/client/redis-client.js';
import { addressText } from '../../redis/client/server-address.js';
import { RedisLockStore } from '../../redis/redis-lock-store.js';
import { type Settings } from '../settings.js';
import { storeOptionsOf, within } from '../session.js';
import { refusalOf } from './finding.js';

/** One server that takes writes, and a lock that only the doctor uses, whose key it serves. */
export interface Server {
  readonly name: string;
  readonly place: Place;
  readonly client: SingleClient;
  readonly key: string;
  readonly storageKey: string;
  /** Sends a command to this server, and waits for its answer. @throws LockStoreError */
  readonly ask: <T>(send: (client: SingleClient) => Promise<T>) => Promise<T>;
}

/** One Redis, a cluster, or one master of a quorum, with what it has pushed. */
export class Place {
  readonly store: RedisLockStore;
  #isListening = false;
  readonly #wakeUps = new Map<string, WakeUp>();

  constructor(
    private readonly settings: Settings,
    connection: RedisConnection,
  ) {
    this.store = new RedisLockStore({ ...storeOptionsOf(settings), connection });
    this.store.listen({
      onWakeUp: (attempt, wakeUp) => void this.#wakeUps.set(attempt, wakeUp),
      onListening: () => {
        this.#isListening = true;
      },
      onMessagesMissed: () => undefined,
    });
  }

  /** Whether the subscription to the channel of wake-ups is confirmed in time. */
  listens(): Promise<boolean> {
    return comes(() => this.#isListening, Math.min(this.settings.timeoutMs, LISTENING_MS));
  }

  get client(): RedisClient {
    return this.store.commands.liveClient();
  }

  wakeUpOf(attempt: string): WakeUp | undefined {
    return this.#wakeUps.get(attempt);
  }

  /** Connects, and returns its servers. @throws LockStoreError */
  async servers(): Promise<Server[]> {
    this.store.open();
    const { client } = this;
    if (!client.isCluster) {
      const server = this.#server(client, client.address, newKey());
      // Any answer will do; what the user may do is checked later.
      await server
        .ask((one) => one.time())
        .catch((error: unknown) => {
          if (/NOAUTH|WRONGPASS/.test(refusalOf(error) ?? 'NOAUTH')) throw error;
        });
      return [server];
    }
    const nodes = await this.#send(client, async () => client.nodes('master'));
    return nodes.map((node) => this.#server(node, node.address, this.#keyAt(node)));
  }

  #server(client: SingleClient, name: string, key: string): Server {
    const node = this.client.isCluster ? client : undefined;
    const ask = <T>(send: (client: SingleClient) => Promise<T>): Promise<T> =>
      this.#send(this.client, () => send(client), node);
    return { name, place: this, client, key, storageKey: this.storageKey(key), ask };
  }

  storageKey(key: string): string {
    const { keyPrefix, hashTag } = this.settings;
    return `${keyPrefix}${hashTag === undefined ? '' : `{${hashTag}}`}${key}`;
  }

  /** A key that this node of a cluster serves: tries some until one fits. */
  #keyAt(node: SingleClient): string {
    const { client } = this;
    for (let tries = 0; tries < 10_000 && client.isCluster; tries += 1) {
      const key = newKey();
      const address = client.masterAddressOf(this.storageKey(key));
      if (address && addressText(address) === node.address) return key;
    }
    return newKey();
  }

  #send<T>(client: RedisClient, send: () => Promise<T>, node?: SingleClient): Promise<T> {
    const { timeoutMs } = this.settings;
    return within(this.settings, this.store.commands.send(client, send, { subject: 'doctor', timeoutMs, node }));
  }

  close(): Promise<void> {
    return this.store.close();
  }
}

const newKey = (): string => `doctor-${systemRandomness.text(9)}`;

/** Waits for a condition; returns whether it came in time. */
export async function comes(condition: () => boolean, ms: number): Promise<boolean> {
  for (let waited = 0; !condition(); waited += PAUSE_MS) {
    if (waited >= ms) return false;
    await sleep(PAUSE_MS);
  }
  return true;
}

const PAUSE_MS = 5;
const LISTENING_MS = 2_000;

/** The servers of all places, and the places that could not be reached, with the reason. */
export async function reached(places: readonly Place[]): Promise<{
  readonly servers: readonly Server[];
  readonly unreached: readonly { readonly place: Place; readonly error: LockStoreError }[];
}> {
  const answers = await Promise.allSettled(places.map((place) => place.servers()));
  const unreached = answers.flatMap((answer, i) => {
    if (answer.status === 'fulfilled') return [];
    if (!(answer.reason instanceof LockStoreError)) throw answer.reason;
    return [{ place: places[i]!, error: answer.reason }];
  });
  const servers = answers.flatMap((answer) => (answer.status === 'fulfilled' ? answer.value : []));
  if (servers.length === 0 && unreached[0]) throw unreached[0].error;
  return { servers, unreached };
}
