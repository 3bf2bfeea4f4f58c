import { getEventListeners } from 'node:events';
import { ModulesContainer } from '@nestjs/core';
import { type EntryHost, enterCall } from '../../../../lib/interceptor/enter-call.js';
import { resolveModuleOptions } from '../../../../lib/redis-lock.options.js';
import { RedisLockService } from '../../../../lib/redis-lock.service.js';
import { FireFinder } from '../../../../lib/schedule/fire-finder.js';
import { startLocker } from '../../../support/core/core-parts.js';
import { outcomeOf } from '../../../support/waiting/outcome.js';
import { settled } from '../../../support/core/fake-clock.js';
import { busy } from '../../../support/core/fake-store.js';

/** A call whose options have a signal of long life, and which comes with one of its own. */
function start() {
  const { clock, store, locker } = startLocker();
  const defaults = resolveModuleOptions({});
  const locks = new RedisLockService(locker, store, defaults);
  const fires = new FireFinder(new ModulesContainer(), () => clock.wallNow());
  const host: EntryHost = {
    locks,
    awaited: locker.awaited,
    fires,
    clock,
    leaseMs: defaults.leaseMs,
    onUnavailable: 'fail',
  };
  const [ofOptions, ofCall] = [new AbortController(), new AbortController()];
  const options = { mode: 'write', signal: ofOptions.signal } as const;
  const call = { where: 'Feed.read', template: 'feed', kind: 'observable', keyOf: () => 'feed', options } as const;
  const enter = async () => enterCall(host, { ...call, name: 'read', method: start }, undefined, [], ofCall.signal);
  return { store, locker, enter, ofOptions, ofCall };
}

/** How much a signal keeps of others: its listeners, and what Node has it remember. */
function keptBy(signal: AbortSignal): number {
  const own = signal as unknown as Record<symbol, { readonly size?: number } | undefined>;
  const sizes = Object.getOwnPropertySymbols(signal).map((name) => own[name]?.size ?? 0);
  return getEventListeners(signal, 'abort').length + sizes.reduce((sum, size) => sum + size, 0);
}

describe('a call with a signal in its options and one of its own', () => {
  it('leaves no listener on either when it has its lock', async () => {
    const { enter, locker, ofOptions, ofCall } = start();
    const before = [keptBy(ofOptions.signal), keptBy(ofCall.signal)];
    for (let i = 0; i < 10; i += 1) {
      const entered = await enter();
      if (entered.kind === 'locked') await entered.lock.release();
    }
    expect(locker.live.locks).toBe(0);
    expect([keptBy(ofOptions.signal), keptBy(ofCall.signal)]).toEqual(before);
  });

  it.each(['ofOptions', 'ofCall'] as const)('is cancelled by the signal %s, with its reason', async (which) => {
    const { store, locker, enter, ...controllers } = start();
    store.onAcquire = () => busy();
    const outcome = outcomeOf(enter());
    await settled();
    expect([outcome, locker.live.waiting]).toEqual([{}, 1]);
    const reason = new Error('enough');
    controllers[which].abort(reason);
    await settled();
    expect(outcome).toEqual({ error: reason });
    expect(Object.values(controllers).map(({ signal }) => getEventListeners(signal, 'abort'))).toEqual([[], []]);
  });

  it.each(['ofOptions', 'ofCall'] as const)('sends no request when the signal %s is already aborted', async (which) => {
    const { store, enter, ...controllers } = start();
    const reason = new Error('enough');
    controllers[which].abort(reason);
    const outcome = outcomeOf(enter());
    await settled();
    expect([outcome, store.asked]).toEqual([{ error: reason }, []]);
  });
});
