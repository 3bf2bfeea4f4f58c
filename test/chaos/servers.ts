import { execFileSync } from 'node:child_process';
import { readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { Redis } from 'ioredis';
import { type StartedRedis, makeFolder, startRedisServer } from '../../scripts/redis.mjs';

const HOST = '127.0.0.1';
const COMMAND_WITHIN_MS = 2_000;

/** Compiles the library that steps a server's clock; undefined if this machine has no compiler. */
export function compileClockShim(folder: string): string | undefined {
  const library = join(folder, 'clock-shim.so');
  try {
    execFileSync('gcc', ['-shared', '-fPIC', '-O1', '-o', library, join(import.meta.dirname, 'clock-shim.c'), '-ldl']);
    return library;
  } catch {
    return undefined;
  }
}

/** A server that can be stopped, killed and restarted with or without its data. It keeps its port. */
export class ChaosServer {
  readonly #folder = makeFolder();
  #server!: StartedRedis;
  #clockUs = 0;

  private constructor(
    private readonly shim: string | undefined,
    private readonly extraArgs: readonly string[],
  ) {}

  static async start({ shim, args = [] }: { shim?: string; args?: readonly string[] } = {}): Promise<ChaosServer> {
    const server = new ChaosServer(shim, args);
    server.#setClock();
    await server.#launch();
    return server;
  }

  get port(): number {
    return this.#server.port;
  }

  get hasClock(): boolean {
    return this.shim !== undefined;
  }

  suspend(): Promise<void> {
    return this.#server.kill('SIGSTOP');
  }

  resume(): Promise<void> {
    return this.#server.kill('SIGCONT');
  }

  async kill(): Promise<void> {
    await this.#server.kill('SIGKILL');
  }

  /** Redis gives every write to the system before it replies, so that the kill of its process loses nothing. */
  async restart({ keepData }: { keepData: boolean }): Promise<void> {
    if (!keepData) rmSync(join(this.#folder.path, 'appendonlydir'), { recursive: true, force: true });
    await this.#launch(this.#server.port);
  }

  /** Steps the wall clock of the server. */
  stepClock(ms: number): void {
    this.#clockUs += ms * 1_000;
    this.#setClock();
  }

  /** Sends one command on a connection of its own; undefined if the server does not carry it out. */
  async send(command: string, ...args: (string | number)[]): Promise<unknown> {
    const client = new Redis({
      host: HOST,
      port: this.port,
      protocol: 2,
      retryStrategy: () => null,
      connectTimeout: COMMAND_WITHIN_MS,
      commandTimeout: COMMAND_WITHIN_MS,
      disconnectTimeout: 100,
    });
    client.on('error', () => undefined);
    try {
      return await client.call(command, ...args);
    } catch {
      return undefined;
    } finally {
      client.disconnect();
    }
  }

  async stop(): Promise<void> {
    await this.#server.stop();
    this.#folder.remove();
  }

  #setClock(): void {
    const bytes = Buffer.alloc(8);
    bytes.writeBigInt64LE(BigInt(this.#clockUs));
    // In place: the server has mapped this file.
    writeFileSync(this.#clockFile, bytes, { flag: this.#clockUs === 0 && !this.#hasClockFile() ? 'w' : 'r+' });
  }

  get #clockFile(): string {
    return join(this.#folder.path, 'clock');
  }

  #hasClockFile(): boolean {
    try {
      return readFileSync(this.#clockFile).length > 0;
    } catch {
      return false;
    }
  }

  async #launch(port?: number): Promise<void> {
    const persistence = ['--dir', this.#folder.path, '--appendonly', 'yes', '--appendfsync', 'no'];
    this.#server = await startRedisServer({
      args: [...persistence, ...this.extraArgs],
      ...(port !== undefined && { port }),
      ...(this.shim !== undefined && { env: { LD_PRELOAD: this.shim, CHAOS_CLOCK: this.#clockFile } }),
    });
  }
}
