/** The events that the processes of a run record. All times are milliseconds of the monotonic clock of this machine. */
export type ChaosEvent = WorkerEvent | NemesisEvent;

export type Mode = 'read' | 'write';

interface At {
  readonly t: number;
  /** The process: `w0.2` is the third process of worker 0. */
  readonly p: string;
}

/** An event of one call; `op` names the call. */
interface OfCall extends At {
  readonly op: string;
}

export interface CallEvent extends OfCall {
  readonly e: 'call';
  readonly keys: readonly string[];
  readonly mode: Mode;
  readonly leaseMs: number;
  readonly waitMs: number;
  /** When its caller aborts it. */
  readonly abortAfterMs?: number;
  /** At most this many readers; 0: any number. */
  readonly permits?: number;
  /** How many permits it takes; 1 by default. */
  readonly take?: number;
  /** Calls with the same owner share the lock. */
  readonly owner?: string;
  /** As in the options of a lock; true by default. `false`: it does not wait in the queue. */
  readonly fair?: boolean | 'strict';
  /** The nominal time of the job's fire. */
  readonly fire?: number;
  /** How long it keeps the lock at least, whenever it is released. */
  readonly holdAtLeastMs?: number;
  /** It began inside a hold of its chain of calls, and may have waited in that before it asked for a hold for itself. */
  readonly isNested?: boolean;
}

/** A process adopts a lock that another call has transferred, or tries to. */
export interface AdoptsEvent
  extends OfCall, Pick<CallEvent, 'keys' | 'mode' | 'leaseMs' | 'permits' | 'take' | 'owner'> {
  readonly e: 'adopts';
  /** The call that has transferred it. */
  readonly from: string;
}

/** A process waits to be the leader: for the next of its terms, which is the call. */
export interface CampaignsEvent extends OfCall {
  readonly e: 'campaigns';
  readonly key: string;
  readonly leaseMs: number;
}

/** What a worker may do in addition to the calls of its lanes. */
export type Deed = 'transfers' | 'leads';

export type WorkerEvent =
  | CallEvent
  | AdoptsEvent
  | CampaignsEvent
  /** `until`: how long the holder can prove its lease; null if its client never reports it. A token per key. */
  | (OfCall & { readonly e: 'granted'; readonly tokens: readonly number[] | null; readonly until: number | null })
  | (OfCall & { readonly e: 'proof'; readonly until: number })
  /** `text`: why Redis could not serve it, for the reader of a history. */
  | (OfCall & { readonly e: 'failed'; readonly code: string; readonly text?: string })
  /** The holder was notified of the loss. */
  | (OfCall & { readonly e: 'lost'; readonly reason: string })
  /** The holder looked, and no longer held the lock. */
  | (OfCall & { readonly e: 'unheld' })
  /** The holder looked, held the lock, and wrote to the resource. */
  | (OfCall & { readonly e: 'act' })
  /** A write hold may be a read hold from now on. */
  | (OfCall & { readonly e: 'reads' })
  | (OfCall & { readonly e: 'longer'; readonly leaseMs: number })
  /** A nested call entered. */
  | (OfCall & { readonly e: 'nested'; readonly token: number })
  | (OfCall & { readonly e: 'releasing' })
  | (OfCall & { readonly e: 'released'; readonly wasHeld: boolean })
  /** The holder has the text for the next one. The lease was extended by `leaseMs`, by a command that was sent after `asked`. */
  | (OfCall & { readonly e: 'transferred'; readonly asked: number; readonly leaseMs: number; readonly mode?: Mode })
  /** Some time after the transfer: whether its handle held the lock still, or released it. */
  | (OfCall & { readonly e: 'spent'; readonly isHeld: boolean })
  /** The leader was notified that its term is over. */
  | (OfCall & { readonly e: 'demoted'; readonly reason: string })
  /** It writes to the fenced register what it has read, counted up; and whether the register took that. */
  | (OfCall & { readonly e: 'writes'; readonly was: number })
  | (OfCall & { readonly e: 'wrote'; readonly isAccepted: boolean })
  /** A call on a hold, and its end; it must settle within `withinMs`. */
  | (OfCall & { readonly e: 'asks'; readonly what: string; readonly withinMs: number })
  | (OfCall & { readonly e: 'answered'; readonly what: string })
  /** The event loop was blocked until now. */
  | (At & { readonly e: 'lag'; readonly from: number })
  | (At & { readonly e: 'ready'; readonly does?: readonly Deed[] })
  /** An event that must never occur in a process: an unhandled rejection, a warning. */
  | (At & { readonly e: 'unhandled'; readonly text: string })
  /** A call that acquires nothing failed, such as a look at a lock. */
  | (At & { readonly e: 'error'; readonly what: string; readonly code: string; readonly text?: string })
  | (At & { readonly e: 'closing' })
  /** The app was closed; `left` are the timers and sockets that it left. */
  | (At & { readonly e: 'closed'; readonly left: readonly string[] });

/** What a fault makes servers forget: nothing; the records of some keys, or of all. */
export type Forgets = readonly string[] | 'all' | undefined;

export interface FaultEvent extends At {
  readonly e: 'fault';
  readonly id: number;
  readonly kind: string;
  /** The affected worker; without it, all of them. */
  readonly worker?: string;
  /** What servers may forget while it lasts. */
  readonly forgets?: Forgets;
  /** How far it sets the clock of a server back. */
  readonly stepsBackMs?: number;
}

export type NemesisEvent =
  | FaultEvent
  | (At & { readonly e: 'over'; readonly id: number })
  | (At & { readonly e: 'suspended'; readonly of: string })
  | (At & { readonly e: 'resumed'; readonly of: string })
  | (At & { readonly e: 'exit'; readonly of: string; readonly code: number | null; readonly signal: string | null })
  /** The process of the nemesis stood still until now. */
  | (At & { readonly e: 'lag'; readonly from: number })
  /** Workers begin no calls after this. */
  | (At & { readonly e: 'stopping' })
  /** What a process still had when it should have ended. */
  | (At & { readonly e: 'stuck'; readonly of: string })
  /** After all processes had ended and all leases were over. */
  | (At & { readonly e: 'left'; readonly what: string })
  /** The fenced resource at the end: the confirmed writes, and those contained in its value. */
  | (At & { readonly e: 'resource'; readonly key: string } & ResourceTotals);

export interface ResourceTotals {
  readonly confirmed: number;
  readonly counted: number;
  /** Writes rejected for too small a token. */
  readonly refused: number;
  /** The same for the register that takes every write. */
  readonly plainConfirmed: number;
  readonly plainCounted: number;
}
