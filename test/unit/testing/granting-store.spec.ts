import { randomUUID } from 'node:crypto';
import { type AcquireRequest } from '../../../lib/core/store/lock-store.js';
import { GrantingStore } from '../../../lib/testing/granting-store.js';
import { ManualClock } from '../../../lib/testing/index.js';
import { eventually } from '../../support/waiting/eventually.js';

const request = (part: Partial<AcquireRequest> = {}): AcquireRequest => ({
  keys: ['a'],
  attempt: randomUUID(),
  owner: undefined,
  mode: 'write',
  leaseMs: 1_000,
  waiterLeaseMs: 0,
  fair: true,
  permits: 0,
  holder: 'host:1 Class.method',
  ...part,
});

describe('a GrantingStore', () => {
  it('grants every request, with rising tokens', async () => {
    const store = new GrantingStore(new ManualClock(7_000));
    const replies = [
      await store.acquire(request()),
      await store.acquire(request({ keys: ['a', 'b'] })),
      await store.acquire(request({ mode: 'read', permits: 1 })),
    ];
    expect(replies).toEqual(
      [[0], [64, 0], [128]].map((micros) => ({
        outcome: 'granted',
        // As in Redis: they do not fit a column that is too small, and a writer reserves some.
        fencingTokens: micros.map((one) => 2 ** 50 + one),
        remainingMs: 1_000,
        serverTimeMs: 7_000,
      })),
    );
  });

  it('reports the holder of a key until its release', async () => {
    const store = new GrantingStore(new ManualClock(7_000));
    await store.acquire(request({ attempt: 'one', owner: 'me' }));
    await store.acquire(request({ attempt: 'two', mode: 'read' }));
    const told = { host: 'host', pid: 1, where: 'Class.method', since: new Date(7_000), remainingMs: 1_000 };
    expect((await store.inspect('a')).holders).toMatchObject([
      { ...told, owner: 'me', attempt: 'one', mode: 'write' },
      { ...told, owner: 'two', attempt: 'two', mode: 'read' },
    ]);
    const release = { key: 'a', holdAtLeastMs: 0, leaseMs: 1_000 };
    expect(await store.release({ ...release, attempt: 'one' })).toMatchObject({ outcome: 'released', holds: 1 });
    expect(await store.inspect('a')).toMatchObject({ mode: 'read', fencingToken: 2 ** 50 + 64 });
    expect(await store.release({ ...release, attempt: 'two' })).toMatchObject({ holds: 0 });
    expect(await store.inspect('a')).toMatchObject({ mode: 'free', holders: [] });
  });

  it('sends its listener a wake-up for each hold that an operator revokes', async () => {
    const store = new GrantingStore(new ManualClock());
    const told: unknown[] = [];
    const ignore = (): void => undefined;
    store.listen({ onWakeUp: (...one) => told.push(one), onListening: ignore, onMessagesMissed: ignore });
    const attempts = ['one', 'two'].map((name) => `${store.clientId}.${name}`);
    for (const attempt of attempts) await store.acquire(request({ attempt }));
    expect(await store.forceRelease('a')).toBe(true);
    await eventually(() => told.length === 2);
    expect(told).toEqual(attempts.map((attempt) => [attempt, { kind: 'revoked' }]));
    expect(await store.forceRelease('a')).toBe(false);
  });
});
