import { UseInterceptors } from '@nestjs/common';
import { Args, Query, Resolver, Subscription } from '@nestjs/graphql';
import { LockInterceptor, RedisLockService } from '../../../lib/index.js';
import { eventually } from '../../support/waiting/eventually.js';
import { closeAll, freshKey } from '../../support/apps/lock-app.js';
import { untilFree } from '../../support/waiting/waiters.js';
import { startGraphql, subscribe } from '../support/transports-graphql.js';

/** Whether the lock was held when a value was made. */
const held: boolean[] = [];

@Resolver()
class Steps {
  constructor(private readonly locks: RedisLockService) {}

  @Query(() => Boolean)
  isStarted(): boolean {
    return true;
  }

  @Subscription(() => Boolean, { resolve: (value: boolean) => value })
  @UseInterceptors(LockInterceptor.for('order:<1.id>'))
  async *steps(@Args('id') id: string): AsyncGenerator<boolean> {
    held.push(await this.locks.isLocked(`order:${id}`));
    yield true;
  }
}

afterEach(closeAll);

describe('LockInterceptor.for on a GraphQL subscription', () => {
  it('never lets the subscription run without the lock', async () => {
    const [graphql, id] = [await startGraphql([Steps]), freshKey()];
    const { values, isComplete } = await subscribe(graphql, `subscription { steps(id: "${id}") }`);
    await eventually(() => values().length > 0 || isComplete());
    expect(graphql.acquired).toEqual([`order:${id}`]);
    expect(held).not.toContain(false);
    await untilFree(graphql, `order:${id}`);
  });
});
