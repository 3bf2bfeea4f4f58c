import { AsyncLocalStorage } from 'node:async_hooks';
import { type HistoryLimits } from '../../core/history/history-entry.js';
import { LockStoreError } from '../../core/lock.errors.js';
import { type Reporter } from '../../core/reporter.js';
import { type ClusterClient, type RedisClient } from '../client/cluster.js';
import { type SingleClient } from '../client/redis-client.js';
import { NODE_INFO_TIMEOUT_MS } from '../timing.js';
import { type Connection } from './connection.js';
import { adviceOn, readableText, runsNoScripts } from './error-advice.js';
import { isRetryable } from './redis-errors.js';
import { type ServerFacts, readServerFacts, spreadsKeys } from './server-facts.js';
import {
  type Finding,
  SPREAD_KEYS,
  type ServerUse,
  type Unsafe,
  textOf,
  unsafetyOf,
  warningsOf,
} from './server-findings.js';

interface ServerCheckParts {
  readonly commands: Connection;
  readonly keyPrefix: string;
  readonly minReplicas: number;
  readonly durable?: 'aof' | undefined;
  readonly history?: HistoryLimits | null;
  readonly reporter: Reporter;
}

const ignore = (): void => undefined;

/**
 * Finds out on what kind of servers the locks are: refuses unsafe servers, and warns once about other problems. It
 * delays nothing, and is silent where a server does not answer its queries.
 */
export class ServerCheck {
  readonly #inOurContext = AsyncLocalStorage.snapshot();
  #findsMaster = true;
  #unsafe: Unsafe | null = null;
  /** Null while it is unknown. The servers behind an address do not change while an app runs. */
  #isSpread: boolean | null = null;
  #isAskingSpread = false;
  /** The last tried server of a single client. */
  #tried: string | undefined;
  readonly #reported = new Set<string>();
  #stop = ignore;

  constructor(private readonly parts: ServerCheckParts) {}

  /** `findsMaster`: as in `ServerUse`. `onServer` receives the servers of a single client. */
  watch(client: RedisClient, findsMaster: boolean): void {
    this.#findsMaster = findsMaster || client.isCluster;
    if (client.isCluster) this.#stop = this.#inOurContext(() => this.#watchCluster(client));
  }

  /** The single client for commands is connected to a server, which has answered INFO, or refused it (''). */
  onServer(info: string): void {
    const facts = this.#judge(info, this.parts.commands.address);
    const client = this.parts.commands.liveClient();
    const server = facts.runId ?? '';
    if (client.isCluster) return;
    void this.#trySpread(client);
    if (this.#tried === server) return;
    this.#tried = server;
    this.#tryScript(client);
    this.#tryWait(client, client, facts);
  }

  get isUnsafe(): boolean {
    return Boolean(this.#isSpread) || this.#unsafe !== null;
  }

  /** Why no lock may be granted now; null: no reason is known. */
  refusal(key: string): LockStoreError | null {
    const unsafe = this.#isSpread ? SPREAD_KEYS : this.#unsafe;
    if (!unsafe) return null;
    const { isPassing } = unsafe;
    // A replica may be promoted while its connections stay open.
    if (isPassing) this.parts.commands.identify();
    return new LockStoreError(`Redis could not serve the lock "${key}": ${textOf(unsafe)}`, {
      key,
      retryable: isPassing,
      wasSent: false,
    });
  }

  close(): void {
    this.#stop();
  }

  get #use(): ServerUse {
    const { commands, minReplicas, history } = this.parts;
    const { isCluster } = commands;
    return { isCluster, findsMaster: this.#findsMaster, minReplicas, writesHistory: Boolean(history) };
  }

  /** Until all answers have come; twice, because a failover between two answers looks the same. */
  async #trySpread(client: SingleClient): Promise<void> {
    if (this.#isSpread !== null || this.#isAskingSpread) return;
    this.#isAskingSpread = true;
    const { commands, keyPrefix } = this.parts;
    const request = { subject: 'EVAL', timeoutMs: NODE_INFO_TIMEOUT_MS };
    const evaluate = (text: string, keys: readonly string[]): Promise<unknown> =>
      commands.send(() => client.evaluate(text, [keys.length, ...keys]), request);
    const ask = (): Promise<boolean | null> => this.#inOurContext(() => spreadsKeys(evaluate, keyPrefix));
    this.#isSpread = (await ask()) && (await ask());
    this.#isAskingSpread = false;
    if (this.#isSpread) this.#report('error', SPREAD_KEYS, commands.address);
  }

  /** Nodes are asked when they are connected: to ask all of them would connect to all. */
  #watchCluster(cluster: ClusterClient): () => void {
    let isTried = false;
    const ask = async (node: SingleClient): Promise<void> => {
      const facts = this.#judge(await node.info(), node.address);
      if (facts.master === undefined) this.#tryWait(cluster, node, facts);
      if (isTried) return;
      isTried = true;
      this.#tryScript(cluster);
    };
    return cluster.attachToNodes((node) => {
      let isAsked = false;
      const onReady = (): void => {
        if (!isAsked) ask(node).catch(ignore);
        isAsked = true;
      };
      if (node.status === 'ready') onReady();
      return node.on('ready', onReady);
    });
  }

  #judge(info: string, address: string): ServerFacts {
    const facts = readServerFacts(info);
    const unsafe = unsafetyOf(facts, this.#use);
    // One unsafe node of a cluster is enough.
    if (unsafe || !this.parts.commands.isCluster) this.#unsafe = unsafe;
    if (unsafe) this.#report('error', unsafe, address);
    else for (const one of warningsOf(facts, this.#use)) this.#report('warn', one, address);
    return facts;
  }

  /** With a key, since some services do not run scripts without one. */
  #tryScript(client: RedisClient): void {
    const key = `${this.parts.keyPrefix}probe`;
    const send = (): Promise<unknown> => client.evaluate('return 1', [1, key]);
    this.#try('EVAL', send, { storageKey: key }, (error) => {
      if (!runsNoScripts(error)) return;
      const text = `This server refused a script (${readableText(error)}).`;
      const advice = adviceOn(error, false);
      this.#report('error', { kind: 'scripts', text, advice }, this.parts.commands.address);
    });
  }

  /** `WAIT 0` does not wait; `WAITAOF 1 0 1` waits for a millisecond at most. */
  #tryWait(client: RedisClient, server: SingleClient, { master }: ServerFacts): void {
    const { minReplicas, durable } = this.parts;
    if (master !== undefined || (minReplicas === 0 && !durable)) return;
    const to = client.isCluster ? { node: server } : {};
    const name = durable ? 'WAITAOF' : 'WAIT';
    const send = (): Promise<unknown> => (durable ? server.call([name, '1', '0', '1']) : server.wait(0, 1));
    this.#try(name, send, to, (error) => {
      if (isRetryable(error)) return;
      const why = readableText(error);
      const finding = durable
        ? {
            text: `This server refused WAITAOF (${why}). With \`durable: 'aof'\`, it can grant no lock.`,
            advice: 'Use Redis 7.2 or Valkey with `appendonly yes`, allow WAITAOF, or leave out `durable`.',
          }
        : {
            text: `This server refused WAIT (${why}). With \`minReplicas\`, it can grant no lock.`,
            advice: 'Leave out `minReplicas`, or allow WAIT.',
          };
      this.#report('error', { kind: 'wait', ...finding }, server.address);
    });
  }

  #try(
    name: string,
    send: () => Promise<unknown>,
    to: { readonly storageKey?: string; readonly node?: SingleClient },
    onRefused: (error: Error) => void,
  ): void {
    const request = { subject: name, timeoutMs: NODE_INFO_TIMEOUT_MS, ...to };
    const onFailure = ({ cause }: LockStoreError): void => {
      if (cause instanceof Error) onRefused(cause);
    };
    void this.#inOurContext(() => this.parts.commands.send(send, request).catch(onFailure));
  }

  #report(level: 'warn' | 'error', finding: Finding, address: string): void {
    if (this.#reported.has(finding.kind)) return;
    this.#reported.add(finding.kind);
    this.parts.reporter[level](`Redis (${address}): ${textOf(finding)}`);
  }
}
