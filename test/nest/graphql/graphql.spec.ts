import { EventEmitter, on } from 'node:events';
import { UseInterceptors } from '@nestjs/common';
import { Args, Mutation, Query, Resolver, Subscription } from '@nestjs/graphql';
import { currentLock, Locked, LockInterceptor, RedisLockService } from '../../../lib/index.js';
import { eventually } from '../../support/waiting/eventually.js';
import { closeAll, freshKey } from '../../support/apps/lock-app.js';
import { untilFree, untilWaiting } from '../../support/waiting/waiters.js';
import { Work } from '../support/transports.js';
import { type GraphqlApp, ask, startGraphql, subscribe } from '../support/transports-graphql.js';

afterEach(closeAll);

type Step = [value: number, key: string];

const asText = { resolve: ([value, key]: Step): string => `${value} ${key}` };

@Resolver()
class Steps {
  readonly source = new EventEmitter();

  constructor(
    private readonly work: Work,
    private readonly locks: RedisLockService,
  ) {}

  @Query(() => Boolean)
  async isStarted(): Promise<boolean> {
    return true;
  }

  @Mutation(() => String)
  @Locked('order:<0>')
  run(@Args('id') id: string): Promise<string> {
    return this.work.run(id);
  }

  @Subscription(() => String, asText)
  unlocked(@Args('id') _id: string): AsyncIterable<Step> {
    return this.#steps();
  }

  @Subscription(() => String, asText)
  @Locked('order:<0>')
  above(@Args('id') _id: string): AsyncIterable<Step> {
    return this.#steps();
  }

  @Locked('order:<0>')
  @Subscription(() => String, asText)
  async below(@Args('id') _id: string): Promise<AsyncIterable<Step>> {
    return this.#steps();
  }

  @Subscription(() => String, asText)
  @Locked('order:<0>')
  async *generated(@Args('id') _id: string): AsyncGenerator<Step> {
    for await (const [value] of this.#steps()) yield [value, currentLock().key];
  }

  @Subscription(() => String, asText)
  @UseInterceptors(LockInterceptor.for('order:<1.id>'))
  async *byRequest(@Args('id') id: string): AsyncGenerator<Step> {
    yield [0, String(await this.locks.isLocked(`order:${id}`))];
  }

  /** As with the iterators of a PubSub, `return()` ends it at once, also while a `next()` waits for a value. */
  #steps(): AsyncIterable<Step> {
    return on(this.source, 'step', { close: ['end'] }) as AsyncIterable<Step>;
  }
}

async function startTwoSteps() {
  const work = new Work();
  work.finish();
  const start = (): Promise<GraphqlApp> => startGraphql([Steps], work);
  const [a, b, id] = [await start(), await start(), freshKey()];
  const { source } = a.app.get(Steps);
  const key = `order:${id}`;
  return { a, b, work, id, key, source, isOpen: () => source.listenerCount('step') > 0 };
}

const run = (graphql: GraphqlApp, id: string) => ask(graphql, `mutation { run(id: "${id}") }`);

describe('a subscription', () => {
  it.each(['above', 'below', 'generated'])('(%s) holds the lock until its last value', async (method) => {
    const { a, b, work, id, key, source, isOpen } = await startTwoSteps();
    const client = await subscribe(a, `subscription { step: ${method}(id: "${id}") }`);
    await eventually(isOpen);
    const second = run(b, id);
    await untilWaiting(b, key);
    source.emit('step', 1, key);
    source.emit('step', 2, key);
    await eventually(() => client.values().length === 2);
    expect([await a.locks.isLocked(key), work.started(id)]).toEqual([true, 0]);
    source.emit('end');
    expect(await second).toEqual({ data: { run: key } });
    expect(client.values()).toEqual([1, 2].map((value) => ({ data: { step: `${value} ${key}` } })));
    await eventually(client.isComplete);
  });

  it.each(['unlocked', 'above', 'below'])(
    '(%s) ends and releases the lock when its client disconnects',
    async (method) => {
      const { a, b, id, key, isOpen } = await startTwoSteps();
      const client = await subscribe(a, `subscription { step: ${method}(id: "${id}") }`);
      await eventually(isOpen);
      client.close();
      await eventually(() => !isOpen(), { timeoutMs: 5000, message: 'The subscription did not end' });
      expect(await run(b, id)).toEqual({ data: { run: key } });
    },
  );

  it('(by request) never runs without the lock', async () => {
    const { a, id, key } = await startTwoSteps();
    const { values, isComplete } = await subscribe(a, `subscription { step: byRequest(id: "${id}") }`);
    await eventually(() => values().length > 0 || isComplete());
    expect([a.acquired, JSON.stringify(values()).includes('false')]).toEqual([[key], false]);
    await untilFree(a, key);
  });
});
