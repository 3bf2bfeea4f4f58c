import { type ModuleMetadata } from '@nestjs/common';
import { type Lock, type LockOptions, type RedisLockModuleOptions } from '../../../lib/index.js';
import { type WakeUpListener } from '../../../lib/core/store/lock-store.js';
import { MemoryLockServer } from '../../../lib/testing/index.js';
import { type MemoryLocks } from '../../../lib/memory/memory-locks.js';
import { startChildApp } from '../../support/processes/child-app.js';
import { type LockApp, memoryServer, startApp } from '../../support/apps/lock-app.js';
import { topology } from '../../support/topologies/topology.js';

/** An instance that can be killed. */
export interface Mortal {
  readonly pid: number;
  /** Gives the fencing token. */
  acquire(key: string, options?: LockOptions): Promise<number>;
  isHeld(): Promise<boolean>;
  release(): Promise<void>;
  /** Nothing is reported. */
  kill(): Promise<void>;
}

/** One instance's way to the locks that all have in common, which can be cut for good. */
class Way extends MemoryLockServer {
  #disconnect = (): unknown => undefined;

  override async run<T>(key: string, command: (locks: MemoryLocks) => T): Promise<T> {
    await super.run(key, () => undefined);
    return memoryServer.run(key, command);
  }

  override connect(clientId: string, listener: WakeUpListener): () => void {
    const disconnect = memoryServer.connect(clientId, listener);
    this.#disconnect = disconnect;
    return disconnect;
  }

  cut(): void {
    this.stop();
    this.#disconnect();
  }
}

/** An app in this process, on locks in memory. Once killed, it sends and receives nothing. */
export async function startMortalApp(
  options: RedisLockModuleOptions = {},
  metadata: ModuleMetadata = {},
): Promise<LockApp & Pick<Mortal, 'kill'>> {
  const way = new Way();
  return { ...(await startApp(options, metadata, way)), kill: async () => way.cut() };
}

/** A separate process; without a Redis, an app whose way to the locks is cut when it is killed. */
export async function startMortal(): Promise<Mortal> {
  if (topology.isMemory) return inThisProcess(await startMortalApp());
  const child = await startChildApp();
  return { ...child, pid: child.process.pid! };
}

function inThisProcess({ locks, kill }: LockApp & Pick<Mortal, 'kill'>): Mortal {
  let held: Lock | null = null;
  let isDead = false;
  return {
    pid: process.pid,
    // Calls that were waiting when it was killed never settle.
    acquire: (key, options) =>
      new Promise((resolve, reject) => {
        const granted = (lock: Lock): void => {
          held = lock;
          resolve(lock.fencingToken);
        };
        locks.acquire(key, options).then(granted, (error: Error) => void (isDead || reject(error)));
      }),
    isHeld: async () => held?.held ?? false,
    release: async () => void (await held?.release()),
    async kill() {
      isDead = true;
      await kill();
    },
  };
}
