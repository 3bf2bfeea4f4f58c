import 'reflect-metadata';
import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import { Locked } from '../../lib/index.js';
import { EVENT_NAMES } from '../support/apps/event-names.js';
import { eventually } from '../support/waiting/eventually.js';
import { disconnect, proxyTo } from '../support/redis/own-redis.js';
import { type LockApp, closeAll, freshKey, startApp } from '../support/apps/lock-app.js';
import { rejection } from '../support/waiting/rejection.js';

type Told = readonly [name: string, event: { readonly key: string }];

class Work {
  @Locked('<0>')
  async outer(key: string): Promise<void> {
    await this.inner(key);
  }

  @Locked('<0>')
  async inner(_key: string): Promise<void> {}

  @Locked('<0>', { ifBusy: 'skip' })
  async skip(_key: string): Promise<void> {}
}

const start = async (connection?: string) => {
  const app = await startApp(connection ? { connection } : {}, { providers: [Work] });
  return { ...app, work: app.app.get(Work) };
};

/** Records what the listeners of these apps and the channels get about a key while `work` runs. */
async function recordBoth(apps: readonly LockApp[], key: string, during: () => Promise<void>) {
  const [listened, published]: [Told[], Told[]] = [[], []];
  const subscribers = EVENT_NAMES.map((name) => {
    for (const { locks } of apps) locks.events.on(name, (event) => listened.push([name, event]));
    const subscriber = (event: unknown, from: string | symbol) => {
      const told = [String(from), event] as Told;
      if (told[1].key === key) published.push(told);
    };
    subscribe(`nestjs-redis-lock:${name}`, subscriber);
    return { name, subscriber };
  });
  try {
    await during();
  } finally {
    for (const { name, subscriber } of subscribers) unsubscribe(`nestjs-redis-lock:${name}`, subscriber);
  }
  return { listened, published };
}

describe('the diagnostics channel of an event', () => {
  afterEach(closeAll);

  it('publishes the same object that the listeners of all modules get, for each event', async () => {
    const proxy = await proxyTo();
    const [a, b, key] = [await start(proxy.url), await start(), freshKey()];
    const { listened, published } = await recordBoth([a, b], key, async () => {
      await a.work.outer(key);
      const given = await b.locks.acquire(key);
      await (await b.locks.adopt(await given.transfer())).release();
      const leadership = b.locks.lead(key);
      await leadership.waitUntilLeader();
      await leadership.stop();
      const revoked = await a.locks.acquire(key);
      await b.locks.forceRelease(key, { by: 'ann' });
      await eventually(() => revoked.signal.aborted);
      await revoked.release();
      const held = await a.locks.acquire(key, { leaseMs: 3_000 });
      await held.extend(3_000);
      await b.work.skip(key);
      await rejection(b.locks.acquire(key, { waitMs: 20 }));
      disconnect(proxy);
      await eventually(() => held.signal.aborted, { timeoutMs: 20_000 });
      await held.release();
    });
    expect(new Set(listened.map(([name]) => name))).toEqual(new Set(EVENT_NAMES));
    expect(published.map(([name]) => name)).toEqual(listened.map(([name]) => `nestjs-redis-lock:${name}`));
    for (const [i, [, event]] of listened.entries()) expect(published[i]![1]).toBe(event);
  });
});
