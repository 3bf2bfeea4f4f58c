import { execFileSync } from 'node:child_process';
import { rmSync, writeFileSync } from 'node:fs';
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

/** Starts a server on this port, or on a free one, with `more` arguments; without `keepData`, it is empty. */
type Launch = (port: number | undefined, keepData: boolean, more: readonly string[]) => Promise<StartedRedis>;

/** A server that can be stopped, killed and restarted. It keeps its port. */
export class ChaosServer {
  private constructor(
    private server: StartedRedis,
    private readonly launch: Launch,
    readonly stepClock: (ms: number) => void,
    private readonly removeFiles: () => void,
  ) {}

  /** Starts a server, optionally with persistent data; with the library, its clock can be stepped. */
  static async start(shim: string | undefined): Promise<ChaosServer> {
    const folder = makeFolder();
    const clock = new ClockFile(join(folder.path, 'clock'));
    // Redis gives every write to the system before it replies, so that the kill of its process loses nothing.
    const args = ['--dir', folder.path, '--appendonly', 'yes', '--appendfsync', 'no'];
    const env = shim === undefined ? {} : { LD_PRELOAD: shim, CHAOS_CLOCK: clock.path };
    const launch: Launch = (port, keepData, more) => {
      if (!keepData) rmSync(join(folder.path, 'appendonlydir'), { recursive: true, force: true });
      return startRedisServer({ args: [...args, ...more], env, ...(port !== undefined && { port }) });
    };
    return new ChaosServer(await launch(undefined, false, []), launch, (ms) => clock.step(ms), folder.remove);
  }

  /** Takes over a server of a topology (scripts/topologies.mjs), which starts again with its arguments and no data. */
  static of(server: StartedRedis): ChaosServer {
    const launch: Launch = (port, _keepData, more) =>
      startRedisServer({ args: [...server.args, ...more], port: port ?? server.port });
    return new ChaosServer(
      server,
      launch,
      () => undefined,
      () => undefined,
    );
  }

  get port(): number {
    return this.server.port;
  }

  suspend(): Promise<void> {
    return this.server.kill('SIGSTOP');
  }

  resume(): Promise<void> {
    return this.server.kill('SIGCONT');
  }

  kill(): Promise<void> {
    return this.server.kill('SIGKILL');
  }

  /** Starts it again: as it was started first, as a replica of `master`, or (null) as a master. */
  async restart({ keepData, master }: { keepData: boolean; master?: ChaosServer | null }): Promise<void> {
    const of = master === null ? ['no', 'one'] : master && [HOST, String(master.port)];
    const more = of ? ['--replicaof', ...of] : [];
    this.server = await this.launch(this.server.port, keepData, more);
  }

  /** Sends one command on a separate connection; undefined if the server does not execute it. */
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
    await this.server.stop();
    this.removeFiles();
  }
}

/** The file that a server's process has mapped, with the offset of its clock. */
class ClockFile {
  #us = 0;

  constructor(readonly path: string) {
    writeFileSync(path, this.#bytes());
  }

  step(ms: number): void {
    this.#us += ms * 1_000;
    // In place: another file would not be the one that is mapped.
    writeFileSync(this.path, this.#bytes(), { flag: 'r+' });
  }

  #bytes(): Buffer {
    const bytes = Buffer.alloc(8);
    bytes.writeBigInt64LE(BigInt(this.#us));
    return bytes;
  }
}
