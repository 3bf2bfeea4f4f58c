import { type Locker } from './core/acquire/locker.js';
import { type LockHistory } from './core/history/lock-history.js';
import { type LockStore } from './core/store/lock-store.js';

/** What the module and its other APIs use of a service. */
export interface ServiceParts {
  readonly locker: Locker;
  readonly store: LockStore;
  readonly history: LockHistory;
  readonly leaders: object;
}

const PARTS = Symbol.for('nestjs-redis-lock:parts');
/** Of the services of every copy of the package. */
const shared = globalThis as { [PARTS]?: WeakMap<object, ServiceParts> };
const services = (shared[PARTS] ??= new WeakMap());

export const keepParts = (service: object, parts: ServiceParts): unknown => services.set(service, parts);

/** Undefined for a mock, which may have the prototype of the class, and methods that do nothing: its constructor never ran. */
export const partsOf = (service: object): ServiceParts | undefined => services.get(service);
