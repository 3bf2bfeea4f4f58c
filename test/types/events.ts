import type { HeldLockEvent, LockEvent, LockEventMap, LockEventName, LockEvents } from '../../lib/core/lock.events.js';
import type { LockLostError, LockLostReason, LockMode } from '../../lib/core/lock.errors.js';
import type { RedisLockService } from '../../lib/redis-lock.service.js';
import { check, type Same } from './support.js';

/** The fields of each event, in addition to the common ones: what users read in their listeners. */
interface OwnFields {
  acquired: Held & { waitedMs: number; waited: boolean; local: boolean; serverTimeMs: number };
  acquireFailed: { waitedMs: number; waited: boolean; reason: AcquireFailure; error: unknown };
  waiting: { ahead: number; holder: string | undefined };
  released: Held & { heldMs: number; holds: number | undefined };
  transferred: Held & { heldMs: number };
  adopted: Held & { from: string };
  renewed: Held & { remainingMs: number };
  renewFailed: Held & { cause: unknown };
  lost: Held & {
    heldMs: number;
    reason: LockLostReason;
    error: LockLostError;
    earlier: readonly HeldLockEvent[];
  };
  skipped: { reason: 'busy' | 'claimed' | 'unavailable' | 'shutdown' | 'not-leader' | 'shared' };
  forced: { by: string | undefined };
  timedOut: { waitedMs: number; holder: string | undefined };
  reentered: { waitedMs: number };
  elected: Held;
  demoted: Held & { heldMs: number; reason: LockLostReason | 'resigned' | 'stopped' };
}
type AcquireFailure = 'busy' | 'timeout' | 'aborted' | 'claimed' | 'shutdown' | 'error';
type Held = { attempt: string; fencingToken: number };
type Common = {
  key: string;
  keys: readonly string[];
  template: string | undefined;
  mode: LockMode;
  where: string;
  note: string | undefined;
};
type Flat<T> = { [Field in keyof T]: T[Field] };
type Fields<Name extends keyof OwnFields> = Flat<Readonly<Common & OwnFields[Name]>>;

check<Same<RedisLockService['events'], LockEvents>>();
check<Same<LockEventName, keyof OwnFields>>();
check<Same<keyof LockEventMap, LockEventName>>();
check<Same<Flat<LockEvent>, Readonly<Common>>>();
check<Same<Flat<HeldLockEvent>, Flat<Readonly<Common & Held>>>>();

export function accepted(events: LockEvents): void {
  events.on('acquired', (event) => check<Same<Flat<typeof event>, Fields<'acquired'>>>());
  events.on('acquireFailed', (event) => check<Same<Flat<typeof event>, Fields<'acquireFailed'>>>());
  events.on('waiting', (event) => check<Same<Flat<typeof event>, Fields<'waiting'>>>());
  events.on('released', (event) => check<Same<Flat<typeof event>, Fields<'released'>>>());
  events.on('transferred', (event) => check<Same<Flat<typeof event>, Fields<'transferred'>>>());
  events.on('adopted', (event) => check<Same<Flat<typeof event>, Fields<'adopted'>>>());
  events.on('renewed', (event) => check<Same<Flat<typeof event>, Fields<'renewed'>>>());
  events.on('renewFailed', (event) => check<Same<Flat<typeof event>, Fields<'renewFailed'>>>());
  events.on('lost', (event) => check<Same<Flat<typeof event>, Fields<'lost'>>>());
  events.on('skipped', (event) => check<Same<Flat<typeof event>, Fields<'skipped'>>>());
  events.on('elected', (event) => check<Same<Flat<typeof event>, Fields<'elected'>>>());
  events.on('demoted', (event) => check<Same<Flat<typeof event>, Fields<'demoted'>>>());
  events.on('forced', (event) => check<Same<Flat<typeof event>, Fields<'forced'>>>());
  events.on('timedOut', (event) => check<Same<Flat<typeof event>, Fields<'timedOut'>>>());
  events.on('reentered', (event) => check<Same<Flat<typeof event>, Fields<'reentered'>>>());
  const listen = ({ key }: LockEvent) => key;
  events.on('lost', listen).on('skipped', listen).off('lost', listen);
  events.on('acquired', async ({ fencingToken }) => fencingToken.toFixed());
  for (const name of ['acquired', 'waiting'] as const) events.on(name, ({ where }) => where);
}

export function refused(events: LockEvents): void {
  // @ts-expect-error no such event
  events.on('aquired', () => undefined);
  // @ts-expect-error no such event
  events.off('error', () => undefined);
  // @ts-expect-error any text
  events.on(String(events), () => undefined);
  // @ts-expect-error a listener is needed
  events.on('acquired');
  // @ts-expect-error a function
  events.on('acquired', 'listener');
  // @ts-expect-error misspelt
  events.on('acquired', ({ waitMs }) => waitMs);
  // @ts-expect-error of an event of a held lock
  events.on('waiting', ({ fencingToken }) => fencingToken);
  // @ts-expect-error of another event
  events.on('timedOut', ({ heldMs }) => heldMs);
  // @ts-expect-error of one of the two events
  for (const name of ['acquired', 'lost'] as const) events.on(name, ({ reason }) => reason);
  // @ts-expect-error may be undefined
  events.on('released', ({ holds }) => holds.toFixed());
  // @ts-expect-error may be undefined
  events.on('waiting', ({ holder }) => holder.length);
  // @ts-expect-error unknown
  events.on('renewFailed', ({ cause }) => cause.message);
  // @ts-expect-error no such reason
  events.on('skipped', ({ reason }) => reason === 'expired');
  // @ts-expect-error no such reason
  events.on('lost', ({ reason }) => reason === 'busy');
  // @ts-expect-error a listener of another event
  events.on('skipped', (event: LockEventMap['lost']) => event);
  // @ts-expect-error all listeners get the same object
  events.on('acquired', (event) => (event.key = ''));
}
