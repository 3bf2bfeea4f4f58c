// What the context of a call reaches, and what it does not: Node keeps it in an AsyncContextFrame from version 24 on, before that by hooks.
import { strict as assert } from 'node:assert';
import { AsyncLocalStorage, executionAsyncResource } from 'node:async_hooks';
import { randomUUID } from 'node:crypto';
import { setImmediate as turn, setTimeout as sleep } from 'node:timers/promises';
import { Injectable } from '@nestjs/common';
import { currentLock, Locked, LockLostError, type RedisLockService } from 'nestjs-redis-lock';

/** What it needs of an instance of the app. */
interface Instance {
  readonly locks: RedisLockService;
}

@Injectable()
class Carts {
  @Locked('cart:<0>')
  async outer(id: string): Promise<number[]> {
    const { fencingToken } = currentLock();
    const nested = await this.inner(id);
    await this.other(id);
    return [fencingToken, nested, currentLock().fencingToken];
  }

  @Locked('cart:<0>', { ifBusy: 'throw' })
  async inner(_id: string): Promise<number> {
    await sleep(1);
    return currentLock().fencingToken;
  }

  @Locked('stock:<0>')
  async other(id: string): Promise<void> {
    await turn();
    assert.equal(currentLock().key, `stock:${id}`);
  }

  @Locked('cart:<0>')
  async everywhere(_id: string): Promise<(string | undefined)[]> {
    const seen = (): string => currentLock().key;
    const inTimer = new Promise<string>((resolve) => setTimeout(() => resolve(seen()), 1));
    const inMicrotask = new Promise<string>((resolve) => queueMicrotask(() => resolve(seen())));
    const inTick = new Promise<string>((resolve) => process.nextTick(() => resolve(seen())));
    async function* items(): AsyncGenerator<string> {
      await turn();
      yield seen();
    }
    const inGenerator = (await items().next()).value as string;
    return [await inTimer, await inMicrotask, await inTick, inGenerator];
  }

  @Locked('cart:<0>', { leaseMs: 3_000 })
  async untilLost(_id: string, began: () => void): Promise<string> {
    const { signal } = currentLock();
    const reason = new Promise<unknown>((resolve) => {
      signal.addEventListener('abort', () => resolve(signal.reason));
    });
    began();
    return ((await reason) as LockLostError).code;
  }
}

async function nestedCallsShareTheLock(): Promise<void> {
  const carts = new Carts();
  for (const tokens of await Promise.all([randomUUID(), randomUUID()].map((id) => carts.outer(id)))) {
    assert.equal(new Set(tokens).size, 1);
  }
}

async function theContextFollowsTheCall(): Promise<void> {
  const carts = new Carts();
  const calls = Array.from({ length: 20 }, async () => {
    const id = randomUUID();
    const key = `cart:${id}`;
    assert.deepEqual(await carts.everywhere(id), [key, key, key, key]);
    assert.throws(() => currentLock(), 'The context continues after the call.');
  });
  await Promise.all(calls);
}

async function aLossAbortsTheSignalOfTheCall({ locks }: Instance): Promise<void> {
  const id = randomUUID();
  let began = (): void => {};
  const hasBegun = new Promise<void>((resolve) => (began = resolve));
  const call = new Carts().untilLost(id, began);
  const outcome = assert.rejects(call, (error) => error instanceof LockLostError && error.reason === 'revoked');
  await hasBegun;
  assert.equal(await locks.forceRelease(`cart:${id}`), true);
  await outcome;
}

/** A listener runs in the context of the call that the event is about, without its locks. */
async function listenersAreNoPartOfTheCall({ locks }: Instance): Promise<void> {
  const seen: string[] = [];
  const look = ({ keys }: { readonly keys: readonly string[] }): void => {
    try {
      seen.push(currentLock().key);
    } catch {
      seen.push(`none for ${keys.join()}`);
    }
  };
  locks.events.on('released', look);
  const id = randomUUID();
  await new Carts().other(id);
  locks.events.off('released', look);
  assert.ok(seen.includes(`none for stock:${id}`), seen.join());
}

/** Hooks keep what a storage has in an object of the async resource; a frame is no such object. */
function contextsAreIn(): Promise<'frame' | 'hooks'> {
  const storage = new AsyncLocalStorage<object>();
  const store = {};
  const has = (value: unknown): boolean =>
    typeof value === 'object' &&
    value !== null &&
    Object.getOwnPropertySymbols(value).some((name) => (value as Record<symbol, unknown>)[name] === store);
  return new Promise((resolve) => {
    storage.run(store, () =>
      setTimeout(() => {
        const resource = executionAsyncResource() as Record<symbol, unknown>;
        const parts = Object.getOwnPropertySymbols(resource).map((name) => resource[name]);
        resolve([resource, ...parts].some(has) ? 'hooks' : 'frame');
      }, 1),
    );
  });
}

const CHECKS = {
  nestedCallsShareTheLock,
  theContextFollowsTheCall,
  aLossAbortsTheSignalOfTheCall,
  listenersAreNoPartOfTheCall,
};

/** CONTEXTS: how this process is expected to keep contexts. */
export async function checkContexts(open: () => Promise<Instance>): Promise<string[]> {
  const instance = await open();
  for (const check of Object.values(CHECKS)) await check(instance);
  const { CONTEXTS = 'any' } = process.env;
  if (CONTEXTS !== 'any') assert.equal(await contextsAreIn(), CONTEXTS);
  return [...Object.keys(CHECKS), `contexts: ${CONTEXTS}`];
}
