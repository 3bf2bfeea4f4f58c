import { type Reporter } from '../core/reporter.js';
import { MemoryLockServer, MemoryLockStore, type MemoryLockStoreOptions } from './memory-lock-store.js';

interface ProcessMemoryOptions extends MemoryLockStoreOptions {
  readonly reporter: Reporter;
}

/** All modules of the process with `connection: 'memory'` use it, as modules with one URL use one Redis; also modules of other copies. */
const SERVER = Symbol.for('nestjs-redis-lock:process-memory');
const shared = globalThis as { [SERVER]?: MemoryLockServer };
const server = (shared[SERVER] ??= new MemoryLockServer());

let isSaid = false;

/** Opens a store on the locks in the memory of this process. Logs a warning the first time. */
export function openProcessMemory({ reporter, ...options }: ProcessMemoryOptions): MemoryLockStore {
  if (!isSaid) {
    reporter.warn(
      "Locks are kept in the memory of this process, because `connection` is 'memory': other processes do not see them, and they " +
        'end with the process. Use a Redis as soon as the app is more than one process.',
    );
  }
  isSaid = true;
  return new MemoryLockStore(server, options);
}
