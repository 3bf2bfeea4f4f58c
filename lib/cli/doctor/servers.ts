import { setTimeout as sleep } from 'node:timers/promises';
import { LockError, LockStoreError } from '../../core/lock.errors.js';
import { systemRandomness } from '../../core/randomness.js';
import { type WakeUp } from '../../core/store/lock-store.js';
import { type RedisClient } from '../../redis/client/cluster.js';
import { type SingleClient } from '../../redis/client/redis-client.js';
import { type RedisConnection } from '../../redis/client/redis-connection.js';
import { addressText } from '../../redis/client/server-address.js';
import { RedisLockStore } from '../../redis/redis-lock-store.js';
import { errorText } from '../output/text.js';
import { storeOptionsOf, within } from '../session.js';
import { type Settings } from '../settings.js';

/** The subjects of the checks, in the order of the output. */
export type CheckName =
  | 'server'
  | 'eviction'
  | 'persistence'
  | 'replication'
  | 'cluster'
  | 'quorum'
  | 'clock'
  | 'rights'
  | 'lock'
  | 'pub/sub'
  | 'leftovers';

export interface DoctorFinding {
  readonly check: CheckName;
  /** `skipped`: it could not be checked, or must not be (`--read-only`). */
  readonly level: 'ok' | 'warn' | 'problem' | 'skipped';
  /** `host:port`; empty: all servers together. */
  readonly server: string;
  /** The finding and its meaning, in whole sentences. */
  readonly text: string;
  /** The advice, in whole sentences; empty if there is nothing to do. */
  readonly advice: string;
}

export type Result = Pick<DoctorFinding, 'level' | 'text'> & { readonly advice?: string };

export const ok = (text: string): Result => ({ level: 'ok', text });
export const warn = (text: string, advice: string): Result => ({ level: 'warn', text, advice });
export const problem = (text: string, advice: string): Result => ({ level: 'problem', text, advice });
export const skipped = (text: string, advice = ''): Result => ({ level: 'skipped', text, advice });

/** Runs a check, which may ask Redis. A missing answer or a refusal is also a finding. */
export async function checked(
  check: CheckName,
  server: string,
  run: () => Promise<readonly Result[]>,
): Promise<DoctorFinding[]> {
  const results = await run().catch((error: unknown) => {
    if (!(error instanceof LockError)) throw error;
    return [problem('This could not be checked.', errorText(error))];
  });
  return results.map(({ level, text, advice = '' }) => ({ check, level, server, text, advice }));
}

/** The text of an error with which Redis refused a command; null: it was another error. */
export function refusalOf(error: unknown): string | null {
  const cause: unknown = error instanceof LockError ? error.cause : error;
  return cause instanceof Error && cause.name === 'ReplyError' ? cause.message : null;
}

/** A server that accepts writes, and a lock of the doctor whose key it serves. */
export interface Server {
  readonly name: string;
  readonly place: Place;
  readonly client: SingleClient;
  readonly key: string;
  readonly storageKey: string;
  /** Sends a command to this server, and waits for its answer. @throws LockStoreError */
  readonly ask: <T>(send: (client: SingleClient) => Promise<T>) => Promise<T>;
}

/** One Redis, a cluster, or one master of a quorum, with the messages that it has pushed. */
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
      // Any answer is enough; the permissions of the user are checked later.
      await server
        .ask((one) => one.time())
        .catch((error: unknown) => {
          if (/NOAUTH|WRONGPASS/.test(refusalOf(error) ?? 'NOAUTH')) throw error;
        });
      return [server];
    }
    const nodes = await this.#send(async () => client.nodes('master'));
    return nodes.map((node) => this.#server(node, node.address, this.#keyAt(node)));
  }

  #server(client: SingleClient, name: string, key: string): Server {
    const node = this.client.isCluster ? client : undefined;
    const ask = <T>(send: (client: SingleClient) => Promise<T>): Promise<T> => this.#send(() => send(client), node);
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

  #send<T>(send: () => Promise<T>, node?: SingleClient): Promise<T> {
    const { timeoutMs } = this.settings;
    return within(this.settings, this.store.commands.send(send, { subject: 'doctor', timeoutMs, node }));
  }

  close(): Promise<void> {
    return this.store.close();
  }
}

const newKey = (): string => `doctor-${systemRandomness.text(9)}`;

/** Waits for a condition; returns whether it was met in time. */
export async function comes(condition: () => boolean, ms: number): Promise<boolean> {
  for (let waited = 0; !condition(); waited += PAUSE_MS) {
    if (waited >= ms) return false;
    await sleep(PAUSE_MS);
  }
  return true;
}

const PAUSE_MS = 5;
const LISTENING_MS = 2_000;

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
