import {
  type AcquireReply,
  type AcquireRequest,
  type AdoptReply,
  type AdoptRequest,
  type HoldRef,
  type LockStore,
  type ReleaseRequest,
  type RenewReply,
  type RenewRequest,
  type WakeUpListener,
} from '../../../../lib/core/store/lock-store.js';
import { MemoryLockStore } from '../../../../lib/testing/index.js';

/** A store that breaks one promise, and a case of the contract that has to notice. */
export interface BadStore {
  readonly name: string;
  readonly store: new (...args: ConstructorParameters<typeof MemoryLockStore>) => LockStore;
  readonly noticedBy: string;
  /** How long the case waits in real time for a store that is stuck. */
  readonly deadlineMs?: number;
}

type Ask = (ask: (request: AcquireRequest) => Promise<AcquireReply>, request: AcquireRequest) => Promise<AcquireReply>;

/** A store of which only the acquire is bad. */
export const badAcquire = (acquire: Ask): BadStore['store'] =>
  class extends MemoryLockStore {
    override acquire(request: AcquireRequest): Promise<AcquireReply> {
      return acquire((asked) => super.acquire(asked), request);
    }
  };

/** A store that asks for something else than it was asked. */
export const misread = (change: (request: AcquireRequest) => Partial<AcquireRequest>): BadStore['store'] =>
  badAcquire((ask, request) => ask({ ...request, ...change(request) }));

type Granted = Extract<AcquireReply, { outcome: 'granted' }>;

/** A store that tells of its grants something else than there is. */
export const mistold = (change: (granted: Granted) => Partial<Granted>): BadStore['store'] =>
  badAcquire(async (ask, request) => {
    const reply = await ask(request);
    return reply.outcome === 'granted' ? { ...reply, ...change(reply) } : reply;
  });

/** A store of which only the release is bad. */
export const badRelease = (change: (request: ReleaseRequest) => Partial<ReleaseRequest>): BadStore['store'] =>
  class extends MemoryLockStore {
    override release(request: ReleaseRequest) {
      return super.release({ ...request, ...change(request) });
    }
  };

/** A store of which only the renewal is bad. */
export const badRenew = (
  renew: (asked: RenewRequest, store: MemoryLockStore, send: MemoryLockStore['renew']) => Promise<RenewReply>,
): BadStore['store'] =>
  class extends MemoryLockStore {
    override async renew(requests: readonly RenewRequest[]): Promise<readonly RenewReply[]> {
      return Promise.all(requests.map((request) => renew(request, this, (asked) => super.renew(asked))));
    }
  };

/** A store that hears something else than it is told. */
export const badListener = (change: (listener: WakeUpListener) => WakeUpListener): BadStore['store'] =>
  class extends MemoryLockStore {
    override listen(listener: WakeUpListener): void {
      super.listen(change(listener));
    }
  };

/** Does something to the lock itself. */
export const lockOf = ({ server }: MemoryLockStore, key: string) => server.locks.lock(`lock:${key}`);

/** The attempt that holds a lock, as the hold of another one. */
export function holderOf(store: MemoryLockStore, hold: HoldRef): HoldRef {
  const [found] = lockOf(store, hold.key).holds;
  return found ? { ...hold, attempt: found[0], fencingToken: found[1].token } : hold;
}

/** A store of which only the adoption is bad. */
export const badAdopt = (
  adopt: (asked: AdoptRequest, store: MemoryLockStore, send: MemoryLockStore['adopt']) => Promise<AdoptReply>,
): BadStore['store'] =>
  class extends MemoryLockStore {
    override adopt(request: AdoptRequest): Promise<AdoptReply> {
      return adopt(request, this, (asked) => super.adopt(asked));
    }
  };
