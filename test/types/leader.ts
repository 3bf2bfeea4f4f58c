import type { DemotionReason } from '../../lib/core/lock.events.js';
import type { LockLostReason } from '../../lib/core/lock.errors.js';
import type { Leader as RealLeader } from '../../lib/decorators/leader.decorator.js';
import type { LeaderHooks, Leadership, LeaderTerm } from '../../lib/leader/leadership.js';
import type { RedisLockService } from '../../lib/redis-lock.service.js';
import { check, type Same } from './support.js';

declare const Leader: typeof RealLeader;
declare const locks: RedisLockService;

check<Same<DemotionReason, LockLostReason | 'resigned' | 'stopped'>>();
check<Same<Leadership['term'], LeaderTerm | undefined>>();

@Leader('a')
export class WithoutHooks {}

@Leader('b', { leaseMs: 1_000, connection: 'other' })
export class WithHooks implements LeaderHooks {
  constructor(readonly name: string) {}

  async onElected({ fencingToken, signal, since, key }: LeaderTerm): Promise<void> {
    check<Same<typeof fencingToken, number>>();
    check<Same<typeof signal, AbortSignal>>();
    check<Same<typeof since, Date>>();
    check<Same<typeof key, string>>();
  }

  onDemoted(_term: LeaderTerm, reason: DemotionReason): string {
    return reason;
  }
}

@Leader('c')
export abstract class WithFewerArguments {
  onElected(): void {}

  abstract onDemoted(term: { readonly fencingToken: number }): void;
}

// @ts-expect-error a term is not a number
@Leader('d')
export class WrongTerm {
  onElected(_term: number): void {}
}

// @ts-expect-error no reason is `fired`
@Leader('e')
export class WrongReason {
  onDemoted(_term: LeaderTerm, _reason: 'fired'): void {}
}

// @ts-expect-error no method
@Leader('f')
export class WrongHook {
  readonly onElected = 'now';
}

export class NoClass {
  // @ts-expect-error a method cannot lead
  @Leader('g')
  run(): void {}
}

// @ts-expect-error without a key
Leader();
// @ts-expect-error several keys
Leader(['a', 'b']);
// @ts-expect-error an option that it does not have
Leader('h', { waitMs: 5 });

export async function accepted(): Promise<void> {
  const controller = new AbortController();
  const leadership = locks.lead('a', {
    leaseMs: 1_000,
    signal: controller.signal,
    onElected: (term) => check<Same<typeof term, LeaderTerm>>(),
    onDemoted: async (_term, reason) => check<Same<typeof reason, DemotionReason>>(),
  });
  check<Same<typeof leadership, Leadership>>();
  check<Same<ReturnType<typeof leadership.isLeader>, boolean>>();
  const term = await leadership.waitUntilLeader();
  check<Same<typeof term, LeaderTerm>>();
  await leadership.resign();
  await leadership.stop();
  await using another = locks.lead('b');
  check<Same<typeof another.key, string>>();
}

export function refused(): void {
  // @ts-expect-error several keys
  locks.lead(['a']);
  // @ts-expect-error an option that it does not have
  locks.lead('a', { waitMs: 5 });
  // @ts-expect-error a hook with another argument
  locks.lead('a', { onElected: (term: string) => term });
}
